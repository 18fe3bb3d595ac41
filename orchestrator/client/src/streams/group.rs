//! One consumer of a group: reads new entries, its own unacknowledged entries, and entries that other consumers left.

use std::time::Duration;

use redis::Value;

use super::entry::{Entry, read_list, read_reply};
use crate::connection::{Connection, command, query};
use crate::error::Error;

/// Removes idle consumers from the group `ARGV[1]` of a stream, except the consumer `ARGV[2]`.
const REMOVE_IDLE: &str = "\
for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for at = 1, #fields, 2 do consumer[fields[at]] = fields[at + 1] end
  local idle = consumer.pending == 0 and consumer.idle > tonumber(ARGV[3])
  if idle and consumer.name ~= ARGV[2] then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
  end
end";

/// A consumer's place in a group.
#[derive(Debug, Clone)]
pub struct Group {
    /// The connection for requests that wait for entries.
    taking: Connection,
    /// The connection for all other requests.
    connection: Connection,
    stream: String,
    name: String,
    consumer: String,
    /// Whether this consumer created the group.
    pub made: bool,
}

impl Group {
    /// Joins the group. Creates stream and group if they do not exist.
    pub async fn join(
        connection: impl Into<Connection>,
        taking: impl Into<Connection>,
        (stream, name, consumer): (String, String, String),
    ) -> Result<Self, Error> {
        let (connection, taking) = (connection.into(), taking.into());
        let mut joined = Self { taking, connection, stream, name, consumer, made: false };
        joined.made = joined.ensure().await?;
        Ok(joined)
    }

    /// Creates the group, which starts at the stream's first entry. Returns whether the group is new.
    async fn ensure(&mut self) -> Result<bool, Error> {
        let command =
            command("XGROUP").arg("CREATE").arg(&self.stream).arg(&self.name).arg(0).arg("MKSTREAM").clone();
        match query::<Value>(&mut self.connection, &command).await {
            Err(error) if error.code() == Some("BUSYGROUP") => Ok(false),
            result => result.map(|_| true),
        }
    }

    /// Entries that no consumer has taken yet; waits for them for at most `block`.
    pub async fn fresh(&mut self, count: u32, block: Duration) -> Result<Vec<Entry>, Error> {
        let mut command = command("XREADGROUP");
        command.arg("GROUP").arg(&self.name).arg(&self.consumer).arg("COUNT").arg(count);
        command.arg("BLOCK").arg(block.as_millis() as u64).arg("STREAMS").arg(&self.stream).arg(">");
        read_reply(query(&mut self.taking, &command).await?)
    }

    /// Entries after the id `after` that this consumer took earlier and did not acknowledge.
    pub async fn own(&mut self, count: u32, after: &str) -> Result<Vec<Entry>, Error> {
        let mut command = command("XREADGROUP");
        command.arg("GROUP").arg(&self.name).arg(&self.consumer).arg("COUNT").arg(count);
        command.arg("STREAMS").arg(&self.stream).arg(after);
        read_reply(query(&mut self.connection, &command).await?)
    }

    /// Takes over entries that other consumers took and did not acknowledge for this long. The second value is the
    /// cursor of the next call, `0-0` at the end.
    pub async fn claim(
        &mut self,
        idle: Duration,
        cursor: &str,
        count: u32,
    ) -> Result<(String, Vec<Entry>), Error> {
        let mut command = command("XAUTOCLAIM");
        command.arg(&self.stream).arg(&self.name).arg(&self.consumer).arg(idle.as_millis() as u64);
        command.arg(cursor).arg("COUNT").arg(count);
        let reply: Vec<Value> = query(&mut self.connection, &command).await?;
        let mut parts = reply.into_iter();
        let (Some(Value::BulkString(next)), Some(entries)) = (parts.next(), parts.next()) else {
            return Err(Error::Shape("XAUTOCLAIM without cursor or entries".to_owned()));
        };
        Ok((String::from_utf8_lossy(&next).into_owned(), read_list(entries)?))
    }

    /// Takes an entry of this consumer once more. This is a write on the connection of `acknowledge`: replicas that have
    /// it have the entry as well, so a `WAIT` on that connection covers the entry. A `WAIT` after mere reads does not:
    /// servers since Redis 7.2 wait only for what the connection has written.
    pub async fn take_again(&mut self, entry: &Entry) -> Result<(), Error> {
        let mut command = command("XCLAIM");
        command.arg(&self.stream).arg(&self.name).arg(&self.consumer).arg(0).arg(&entry.id).arg("JUSTID");
        query::<Value>(&mut self.connection, &command).await.map(drop)
    }

    /// Acknowledges these entries.
    pub async fn acknowledge(&mut self, entries: &[Entry]) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut command = command("XACK");
        command.arg(&self.stream).arg(&self.name);
        entries.iter().for_each(|entry| {
            command.arg(&entry.id);
        });
        query::<Value>(&mut self.connection, &command).await.map(drop)
    }

    /// Removes the consumers that took nothing for this long, and have no unacknowledged entries. The server decides and
    /// removes in one step: a consumer that seems to be gone may only be quiet, and an entry that it took after it was found
    /// idle would be lost with it.
    pub async fn tidy(&mut self, idle: Duration) -> Result<(), Error> {
        let mut command = command("EVAL");
        command.arg(REMOVE_IDLE).arg(1).arg(&self.stream).arg(&self.name).arg(&self.consumer);
        command.arg(idle.as_millis() as u64);
        query::<Value>(&mut self.connection, &command).await.map(drop)
    }
}
