//! `allot realm`: realms of conferences and their settings.

use allot_client::{RealmStore, Record};
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;
use serde_json::json;

use crate::complete;
use crate::context::{Context, Noun};
use crate::failure::{Failure, Result};
use crate::output::columns;
use crate::realm_settings::setting;
use crate::stores::{self, guard, with_key};

/// The verbs of realms.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the realms of the server
    #[command(alias = "ls")]
    List,
    /// Show the settings and totals of a realm
    Get(OfRealm),
    /// Change settings of a realm, which is created if there is none
    Set {
        /// The realm, if it is not that of the settings, and settings: licences=N, retry=TIME, window=TIME,
        /// policy=earliest|keep, create-timeout=TIME, release-timeout=TIME, wait-timeout=TIME, tombstone=TIME,
        /// place=share|load, tries=N, failures=N, warn=TIME, ramp=TIME
        #[arg(required = true, value_name = "[KEY] NAME=VALUE", add = ArgValueCompleter::new(complete::realm_settings))]
        words: Vec<String>,
    },
    /// End the mass-failure guard, which holds because many units were silent at once
    LiftGuard(OfRealm),
}

/// A realm.
#[derive(Debug, Args)]
pub(crate) struct OfRealm {
    /// The realm [default: realm in the settings, or ALLOT_REALM]
    #[arg(add = ArgValueCompleter::new(complete::realms))]
    key: Option<String>,
}

columns! {
    REALMS = key Text, open Number, creating Number, waiting Number, pending Number, capacity Number,
        used Number, licences_used Number, units_up Number = "up" wide, units_down Number = "down" wide,
        ended Number wide;
    REALM = key Text, licences Number, licences_used Number, retry_ms Span = "retry",
        window_ms Span = "window", policy Text, create_timeout_ms Span = "createtimeout",
        release_timeout_ms Span = "releasetimeout", wait_timeout_ms Span = "waittimeout",
        tombstone_ms Span = "tombstone", place Text, tries Number, failures Number, warn_ms Span = "warn",
        ramp_ms Span = "ramp", term Number, leader Text, drained Text, guard Text;
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: Verb) -> Result {
    match verb {
        Verb::List => stores::list(context, Noun::Realm, REALMS).await,
        Verb::Get(OfRealm { key }) => {
            let store = stores::realm(context, key.as_deref()).await?;
            // `CONF.REALM` creates a realm that does not exist; this request is refused in that case.
            store.stat().await?;
            context.out.get(REALM, &record(&store).await?, &[])
        }
        Verb::Set { words } => set(context, &words).await,
        Verb::LiftGuard(OfRealm { key }) => {
            let key = key.unwrap_or_else(|| context.settings.realm());
            let store = stores::realm(context, Some(&key)).await?;
            store.stat().await?;
            let Some(units) = guard(&store).await? else {
                return Err(Failure::no("the mass-failure guard does not hold"));
            };
            context.confirm(&format!("lift the mass-failure guard: {units}")).await?;
            store.lift_guard().await?;
            let row = json!({"key": key, "guard": units});
            context.out.done("the scheduler is asked to lift the mass-failure guard", REALM, &row)
        }
    }
}

async fn record(store: &RealmStore) -> Result<serde_json::Value> {
    let mut record = with_key(store.realm().await?.json(), store.stream("").trim_end_matches(':'));
    if let (Some(units), Some(fields)) = (guard(store).await?, record.as_object_mut()) {
        fields.insert("guard".to_owned(), units.into());
    }
    Ok(record)
}

async fn set(context: &Context, words: &[String]) -> Result {
    let (key, changes) = match words.split_first() {
        Some((key, rest)) if !key.contains('=') => (Some(key.clone()), rest),
        _ => (None, words),
    };
    if key.as_ref().is_some_and(String::is_empty) || changes.is_empty() {
        return Err(Failure::usage("name a realm that is not empty, and settings: NAME=VALUE"));
    }
    let changes = changes.iter().map(|change| setting(change)).collect::<Result<Vec<_>>>()?;
    let key = key.unwrap_or_else(|| context.settings.realm());
    let store = stores::realm(context, Some(&key)).await?;
    let said = words.iter().filter(|word| word.contains('=')).cloned().collect::<Vec<_>>().join(", ");
    if let Err(error) = store.stat().await
        && error.code() != Some("NOKEY")
    {
        return Err(error.into());
    }
    context.proceed(&format!("set {said} of realm '{key}'"))?;
    let mut command = store.begin("CONF.REALM");
    for (_, word, value) in &changes {
        command.arg(word).arg(value);
    }
    let record = Record::read(store.ask(&command).await?)?.json();
    context.out.done(&format!("realm '{key}' has {said}"), REALM, &with_key(record, &key))
}
