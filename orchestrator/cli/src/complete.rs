//! Completion: what the server and the settings have, for the shells. A shell waits, so a server that is slow completes
//! nothing.

use std::ffi::OsStr;
use std::time::Duration;

use allot_client::Record;
use clap_complete::CompletionCandidate;
use redis::Value as Reply;

use crate::context::{Context, Noun};
use crate::failure::Result;
use crate::output::{Format, Output, short};
use crate::settings::{Given, Settings};
use crate::{realm_settings, stores};

/// Time limit for all of a completion.
const LIMIT: Duration = Duration::from_millis(800);
/// Most candidates.
const MOST: usize = 500;

/// The value of an option of the line that is completed.
fn given(name: &str) -> Option<String> {
    let is_option = |word: &String| word.split('=').next() == Some(name);
    let mut words = std::env::args().skip_while(|word| !is_option(word));
    let option = words.next()?;
    option.split_once('=').map(|(_, value)| value.to_owned()).or_else(|| words.next())
}

fn context() -> Option<Context> {
    let (server, config) = (given("--server"), given("--config").map(Into::into));
    let (zookeeper, limit_time) = (given("--zookeeper"), Some(LIMIT));
    let settings =
        Settings::load(&Given { server, config, zookeeper, limit_time, ..Given::default() }).ok()?;
    let out = Output { format: Format::Table, color: false, utc: true, width: None, quiet: true };
    Some(Context::new(out, settings, false, true))
}

/// The names that `find` gives within the time limit, and that begin as the word does.
fn names(
    current: &OsStr,
    find: impl AsyncFnOnce(&Context) -> Result<Vec<String>>,
) -> Vec<CompletionCandidate> {
    let found = || {
        let context = context()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let found = runtime.block_on(async { tokio::time::timeout(LIMIT, find(&context)).await });
        runtime.shutdown_background();
        found.ok()?.ok()
    };
    let word = current.to_string_lossy();
    let mut names: Vec<String> = found().unwrap_or_default();
    names.retain(|name| name.starts_with(&*word));
    names.sort();
    names.dedup();
    names.into_iter().take(MOST).map(CompletionCandidate::new).collect()
}

async fn keys_of(context: &Context, nouns: &[Noun]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for noun in nouns {
        context
            .scan(*noun, async |_: &mut allot_client::Connection, keys: Vec<String>| {
                all.extend(keys);
                Ok(())
            })
            .await?;
    }
    Ok(all)
}

/// Keys of the kind that the noun of the line names.
pub(crate) fn keys(current: &OsStr) -> Vec<CompletionCandidate> {
    let words: Vec<String> = std::env::args().collect();
    let of_line = |noun: &Noun| words.iter().any(|word| word.trim_end_matches('s') == noun.words().0);
    let nouns: Vec<Noun> = Noun::ALL.into_iter().filter(of_line).collect();
    names(current, async |context| keys_of(context, &nouns).await)
}

macro_rules! of_kind {
    ($($name:ident $noun:ident;)*) => { $(
        pub(crate) fn $name(current: &OsStr) -> Vec<CompletionCandidate> {
            names(current, async |context| keys_of(context, &[Noun::$noun]).await)
        }
    )* };
}

of_kind! {
    shows Show;
    pools Pool;
    realms Realm;
    books Book;
}

pub(crate) fn conferences(current: &OsStr) -> Vec<CompletionCandidate> {
    names(current, async |context| {
        let store = stores::realm(context, given("--realm").as_deref()).await?;
        let (_, page) = store.conference_page(0, 1000, None, None).await?;
        Ok(page.iter().map(|record| record.text("e164")).collect())
    })
}

pub(crate) fn units(current: &OsStr) -> Vec<CompletionCandidate> {
    names(current, async |context| {
        let store = stores::realm(context, given("--realm").as_deref()).await?;
        let units = store.units().await?.into_iter().filter(|unit| unit.state != "down");
        Ok(units.map(|unit| short(&unit.cmu).to_owned()).collect())
    })
}

pub(crate) fn accounts(current: &OsStr) -> Vec<CompletionCandidate> {
    names(current, async |context| {
        let book = stores::book(context, given("--book").as_deref()).await?;
        let (_, page): (u64, Reply) = book.ask(book.begin("ACCOUNT.LIST").arg("COUNT").arg(1000)).await?;
        Ok(Record::read_list(page)?.iter().map(|record| record.text("account")).collect())
    })
}

pub(crate) fn tasks(current: &OsStr) -> Vec<CompletionCandidate> {
    names(current, async |context| {
        let client = context.tasks().await?;
        Ok(client.store.mains().await?.into_iter().map(|main| main.task.id).collect())
    })
}

pub(crate) fn nodes(current: &OsStr) -> Vec<CompletionCandidate> {
    names(current, async |context| {
        let units = context.tasks().await?.units().await?;
        Ok(units.live.keys().cloned().collect())
    })
}

pub(crate) fn servers(current: &OsStr) -> Vec<CompletionCandidate> {
    names(current, async |context| Ok(context.settings.named.keys().cloned().collect()))
}

/// Keys of realms, and settings of a realm.
pub(crate) fn realm_settings(current: &OsStr) -> Vec<CompletionCandidate> {
    names(current, async |context| {
        let mut all = realm_settings::setting_words();
        // Settings are known without a server.
        all.extend(keys_of(context, &[Noun::Realm]).await.unwrap_or_default());
        Ok(all)
    })
}
