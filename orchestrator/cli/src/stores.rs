//! The values that verbs work on: shows, realms and their units, and books.

use std::collections::BTreeSet;
use std::time::Duration;

use allot_client::streams::{self, Commands};
use allot_client::{
    BookStore, Bucket, Connection, CreateRequest, Error, RealmStore, Record, SeatStore, Session, query_all,
};
use redis::cmd;
use serde_json::{Value, json};

use crate::context::{Context, Noun, values};
use crate::failure::{Failure, Result};
use crate::output::{Column, short};

/// The totals of values of a kind, each with its key. A value that has gone meanwhile has none.
pub(crate) async fn totals(
    connection: &mut Connection,
    noun: Noun,
    keys: &[String],
) -> Result<Vec<Option<Value>>> {
    let commands = keys.iter().map(|key| cmd(noun.totals().0).arg(key).clone()).collect();
    let replies = query_all(connection, commands).await?;
    let total = |(key, reply): (&String, Result<_, Error>)| {
        let Ok(reply) = reply else { return Ok(None) };
        if noun != Noun::Show {
            return Ok(Some(with_key(Record::read(reply)?.json(), key)));
        }
        let buckets = Record::read_list(reply)?.iter().map(Bucket::read).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(summary(key, &buckets)))
    };
    keys.iter().zip(replies).map(total).collect()
}

/// Lists the values of a kind with their totals.
pub(crate) async fn list(context: &Context, noun: Noun, columns: &'static [Column]) -> Result {
    let mut rows = context.out.rows(columns);
    context
        .scan(noun, async |connection: &mut Connection, keys: Vec<String>| {
            let totals = totals(connection, noun, &keys).await?;
            totals.iter().flatten().try_for_each(|total| rows.push(total))?;
            rows.flush()
        })
        .await?;
    rows.end(&format!("there are no {}s; {} creates one", noun.words().0, noun.creation()))
}

/// A record with its key.
pub(crate) fn with_key(mut record: Value, key: &str) -> Value {
    if let Some(fields) = record.as_object_mut() {
        fields.insert("key".to_owned(), key.into());
    }
    record
}

/// The client of a show.
pub(crate) async fn show(context: &Context, key: &str) -> Result<SeatStore> {
    Ok(SeatStore::new(context.open(Noun::Show, key).await?, key))
}

/// All records that a server gives page by page: `page` returns the next cursor, 0 at the end.
pub(crate) async fn all(page: impl AsyncFn(u64) -> Result<(u64, Vec<Record>)>) -> Result<Vec<Value>> {
    let (mut all, mut cursor) = (Vec::new(), 0);
    loop {
        let (next, records) = page(cursor).await?;
        all.extend(values(&records));
        if next == 0 {
            return Ok(all);
        }
        cursor = next;
    }
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
    Ok(store.ask(cmd("HGET").arg(store.stream("guard")).arg("units")).await?)
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

    /// Creates a conference when there is room and licences for it; `None` if there was none until `limit` has passed.
    pub(crate) async fn create_with_room(
        &self,
        request: &CreateRequest<'_>,
        limit: Duration,
    ) -> Result<Option<Record>, Error> {
        let key = self.store.stream("").trim_end_matches(':').to_owned();
        let waiting = RealmStore::new(self.session.another(limit).await?, &key);
        let created = waiting.create_with_room(request, limit).await?;
        // Replicas confirm what a connection knows of: this one has not written.
        self.store.stat().await?;
        Ok(created)
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
