//! One consumer of a group: what is new, what it took and has not acknowledged, and what others left.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Value, cmd};

use super::entry::{Entry, read_list, read_reply};
use crate::connection::query;
use crate::error::Error;
use crate::record::Record;

/// A consumer that took nothing for so long, and has nothing left to acknowledge, is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(3600);

/// A consumer's place in a group.
#[derive(Debug, Clone)]
pub struct Group {
    /// Takes entries, and waits for them.
    taking: MultiplexedConnection,
    /// For all that is answered at once.
    connection: MultiplexedConnection,
    stream: String,
    name: String,
    consumer: String,
    /// Whether the group was not there before.
    pub made: bool,
}

impl Group {
    /// Joins; makes stream and group where they are not there.
    pub async fn join(
        connection: MultiplexedConnection,
        taking: MultiplexedConnection,
        (stream, name, consumer): (String, String, String),
    ) -> Result<Self, Error> {
        let mut joined = Self { taking, connection, stream, name, consumer, made: false };
        joined.made = joined.ensure().await?;
        Ok(joined)
    }

    /// Makes the group, from the stream's first entry on; whether it was not there.
    async fn ensure(&mut self) -> Result<bool, Error> {
        let command =
            cmd("XGROUP").arg("CREATE").arg(&self.stream).arg(&self.name).arg(0).arg("MKSTREAM").clone();
        match query::<Value>(&mut self.connection, &command).await {
            Err(error) if error.code() == Some("BUSYGROUP") => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// Entries that no consumer has taken yet; waits for them for at most `block`.
    pub async fn fresh(&mut self, count: u32, block: Duration) -> Result<Vec<Entry>, Error> {
        let mut command = cmd("XREADGROUP");
        command.arg("GROUP").arg(&self.name).arg(&self.consumer).arg("COUNT").arg(count);
        command.arg("BLOCK").arg(block.as_millis() as u64).arg("STREAMS").arg(&self.stream).arg(">");
        read_reply(query(&mut self.taking, &command).await?)
    }

    /// What this consumer took earlier and never acknowledged, from an id on.
    pub async fn own(&mut self, count: u32, after: &str) -> Result<Vec<Entry>, Error> {
        let mut command = cmd("XREADGROUP");
        command.arg("GROUP").arg(&self.name).arg(&self.consumer).arg("COUNT").arg(count);
        command.arg("STREAMS").arg(&self.stream).arg(after);
        read_reply(query(&mut self.taking, &command).await?)
    }

    /// Takes over what others took and did not acknowledge for so long; and where to go on, `0-0` at the end.
    pub async fn claim(
        &mut self,
        idle: Duration,
        cursor: &str,
        count: u32,
    ) -> Result<(String, Vec<Entry>), Error> {
        let mut command = cmd("XAUTOCLAIM");
        command.arg(&self.stream).arg(&self.name).arg(&self.consumer).arg(idle.as_millis() as u64);
        command.arg(cursor).arg("COUNT").arg(count);
        let reply: Vec<Value> = query(&mut self.connection, &command).await?;
        let mut parts = reply.into_iter();
        let (Some(Value::BulkString(next)), Some(entries)) = (parts.next(), parts.next()) else {
            return Err(Error::Shape("XAUTOCLAIM without cursor or entries".to_owned()));
        };
        Ok((String::from_utf8_lossy(&next).into_owned(), read_list(entries)?))
    }

    /// These are done with.
    pub async fn acknowledge(&mut self, entries: &[Entry]) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut command = cmd("XACK");
        command.arg(&self.stream).arg(&self.name);
        entries.iter().for_each(|entry| {
            command.arg(&entry.id);
        });
        query::<Value>(&mut self.connection, &command).await.map(drop)
    }

    /// Forgets consumers that are gone and owe nothing. What one of them still owes keeps it until others
    /// have claimed that.
    pub async fn tidy(&mut self) -> Result<(), Error> {
        let command = cmd("XINFO").arg("CONSUMERS").arg(&self.stream).arg(&self.name).clone();
        for consumer in Record::read_list(query(&mut self.connection, &command).await?)? {
            let (name, pending, idle): (String, u64, u64) =
                (consumer.get("name")?, consumer.get("pending")?, consumer.get("idle")?);
            let gone = Duration::from_millis(idle) > FORGET_AFTER && pending == 0;
            if gone && name != self.consumer {
                let command =
                    cmd("XGROUP").arg("DELCONSUMER").arg(&self.stream).arg(&self.name).arg(&name).clone();
                query::<Value>(&mut self.connection, &command).await?;
            }
        }
        Ok(())
    }
}
