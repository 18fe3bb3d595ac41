//! The values that verbs work on: shows, realms and their units, and books.

use std::collections::BTreeSet;

use allot_client::streams::{self, Commands};
use allot_client::{BookStore, Bucket, Error, RealmStore, Record, SeatStore, Session};
use serde_json::{Value, json};

use crate::context::{Context, Noun};
use crate::failure::{Failure, Result};
use crate::output::short;

/// The client of a show.
pub(crate) async fn show(context: &Context, key: &str) -> Result<SeatStore> {
    Ok(SeatStore::new(context.open(Noun::Show, key).await?, key))
}

/// The totals of a show.
pub(crate) fn summary(key: &str, buckets: &[Bucket]) -> Value {
    let sum = |of: fn(&Bucket) -> u64| buckets.iter().map(of).sum::<u64>();
    let distinct = |of: fn(&Bucket) -> &str| buckets.iter().map(of).collect::<BTreeSet<_>>().len();
    json!({
        "key": key, "seats": sum(Bucket::all), "free": sum(|bucket| bucket.free), "held": sum(|bucket| bucket.held),
        "sold": sum(|bucket| bucket.sold), "blocked": sum(|bucket| bucket.blocked),
        "areas": distinct(|bucket| &bucket.area), "tiers": distinct(|bucket| &bucket.tier),
    })
}

/// The client of a realm: of this key, or of that in the settings.
pub(crate) async fn realm(context: &Context, key: Option<&str>) -> Result<RealmStore> {
    let key = key.map_or_else(|| context.settings.realm(), str::to_owned);
    Ok(RealmStore::new(context.open(Noun::Realm, &key).await?, &key))
}

/// Which units the mass-failure guard keeps from being declared down; `None` while it does not hold.
pub(crate) async fn guard(store: &RealmStore) -> Result<Option<String>> {
    Ok(store.ask(redis::cmd("HGET").arg(store.stream("guard")).arg("units")).await?)
}

/// The identity of a unit of this name: that of a unit that is not down, if there is one.
pub(crate) async fn unit(store: &RealmStore, name: &str) -> Result<String> {
    let units = store.units().await?;
    if units.iter().any(|unit| unit.cmu == name) {
        return Ok(name.to_owned());
    }
    let mut found: Vec<_> = units.iter().filter(|unit| short(&unit.cmu) == name).collect();
    if found.iter().any(|unit| unit.state != "down") {
        found.retain(|unit| unit.state != "down");
    }
    match found.as_slice() {
        [one] => Ok(one.cmu.clone()),
        [] => Err(Failure::absent(format!("there is no unit '{name}'")).hint("allot unit list")),
        more => {
            let names: Vec<&str> = more.iter().map(|unit| unit.cmu.as_str()).collect();
            Err(Failure::usage(format!("'{name}' names {} units", more.len()))
                .hint(format!("one of {}", names.join(", "))))
        }
    }
}

/// The client of a book: of this key, or of that in the settings.
pub(crate) async fn book(context: &Context, key: Option<&str>) -> Result<BookStore> {
    let key = key.map_or_else(|| context.settings.book(), str::to_owned);
    Ok(BookStore::new(context.open(Noun::Book, &key).await?, &key))
}

/// A session in which conferences get another owner, or end.
pub(crate) struct Changing {
    pub(crate) store: RealmStore,
    session: Session,
}

impl Changing {
    pub(crate) async fn connect(context: &Context, realm: Option<&str>) -> Result<Self> {
        let key = realm.map_or_else(|| context.settings.realm(), str::to_owned);
        let session = context.session(Noun::Realm, &key).await?;
        Ok(Self { store: RealmStore::new(session.connection.clone(), &key), session })
    }

    /// The events of the realm after this id.
    pub(crate) async fn events_after(&self, id: &str) -> Result<Commands, Error> {
        let connection = self.session.another(streams::BLOCK).await?;
        Ok(Commands::read_after(connection, self.store.stream("evt"), id.to_owned()))
    }

    /// Waits until replicas confirm the change. Without a confirmation the change stays, and a warning is printed.
    pub(crate) async fn confirm(&mut self, context: &Context) -> Result {
        let (replicas, limit) = context.settings.confirmation()?;
        let why = match self.session.wait(replicas, limit).await {
            Ok(true) => return Ok(()),
            Ok(false) => format!("within {limit:?}"),
            Err(error) => error.to_string(),
        };
        crate::terminal::note(&format!(
            "allot: not enough replicas confirmed this ({why}); it is done, and a failover now may undo it"
        ));
        Ok(())
    }

    pub(crate) async fn info(&self, number: &str) -> Result<Record> {
        let info = self.store.begin("CONF.INFO").arg(number).clone();
        Ok(Record::read(self.store.ask(&info).await?)?)
    }
}
