//! The commands of streams and hashes. Like those of realms, they decide writes, which then change the data.

use super::arguments::{Arguments, number};
use super::command::{Command, Fields, Word};
use super::database::{Database, Write};
use super::reply::{self, Reply};
use super::stream::{Group, Id, Stream};

/// What came of a command.
pub(super) enum Done {
    Reply(Reply),
    /// There is nothing to read yet in this stream, by this group if one reads.
    Nothing {
        stream: Word,
        group: Option<Word>,
    },
}

/// Carries a command out; `None` if it is no command of streams or hashes.
pub(super) fn run(
    database: &mut Database,
    clock: i64,
    command: &Command,
    log: &mut Vec<Write>,
) -> Option<Done> {
    let mut arguments = Arguments::new(command);
    let reply = match command.name() {
        b"XREAD" => return Some(read(database, &mut arguments)),
        b"XREADGROUP" => return Some(read_group(database, clock, &mut arguments, log)),
        b"XADD" => add(database, clock, command, &mut arguments, log),
        b"XACK" => {
            let (key, group) = (arguments.word(), arguments.word());
            let ids: Vec<Id> = arguments.rest().map(id_of).collect();
            let count = reply::number(ids.len());
            write(database, log, Write::Acknowledge { key, group, ids });
            count
        }
        b"XGROUP" => group(database, &mut arguments, log),
        b"XAUTOCLAIM" => claim(database, clock, &mut arguments, log),
        b"EVAL" => remove_idle(database, clock, &mut arguments, log),
        b"HSET" => {
            let key = arguments.word();
            let fields = pairs(&mut arguments);
            let count = reply::number(fields.len());
            write(database, log, Write::SetHash { key, fields });
            count
        }
        b"HGET" => {
            let (key, field) = (arguments.text(), arguments.text());
            let value = database.hash(key, clock).and_then(|hash| hash.fields.get(field));
            value.map_or(Reply::Nil, reply::text)
        }
        b"EXPIRE" => {
            let key = arguments.word();
            let at = clock + 1000 * number::<i64>(arguments.text()).unwrap();
            write(database, log, Write::ExpireHash { key, at });
            Reply::Int(1)
        }
        b"DEL" => {
            let key = arguments.word();
            let there = database.hash(&key, clock).is_some();
            write(database, log, Write::DeleteHash { key });
            Reply::Int(there.into())
        }
        _ => return None,
    };
    Some(Done::Reply(reply))
}

fn write(database: &mut Database, log: &mut Vec<Write>, write: Write) {
    database.apply(&write);
    // Most commands write once.
    log.reserve_exact(1);
    log.push(write);
}

fn add(
    database: &mut Database,
    clock: i64,
    command: &Command,
    arguments: &mut Arguments<'_>,
    log: &mut Vec<Write>,
) -> Reply {
    let key = arguments.word();
    assert_eq!(arguments.text(), b"*", "programs let the server choose ids");
    let id = database.streams.get(&key).map_or((clock as u64, 0), |stream| stream.next_id(clock));
    write(database, log, Write::Add { key, id, fields: command.fields(arguments.first()) });
    reply::id(id)
}

fn read(database: &Database, arguments: &mut Arguments<'_>) -> Done {
    let count = arguments.integer_after("COUNT").unwrap().unwrap_or(i64::MAX) as usize;
    let _ = arguments.text_after("BLOCK");
    arguments.flag("STREAMS");
    let (key, after) = (arguments.word(), id_of(arguments.text()));
    let entries: Vec<Reply> = match database.streams.get(&key) {
        Some(stream) => stream.after(after, count).map(|(id, fields)| entry(id, Some(fields))).collect(),
        None => Vec::new(),
    };
    if entries.is_empty() {
        return Done::Nothing { stream: key, group: None };
    }
    Done::Reply(of_stream(&key, entries))
}

fn read_group(
    database: &mut Database,
    clock: i64,
    arguments: &mut Arguments<'_>,
    log: &mut Vec<Write>,
) -> Done {
    arguments.flag("GROUP");
    let (name, consumer) = (arguments.word(), arguments.word());
    let count = arguments.integer_after("COUNT").unwrap().unwrap_or(i64::MAX) as usize;
    let _ = arguments.text_after("BLOCK");
    arguments.flag("STREAMS");
    let (key, from) = (arguments.word(), arguments.text());
    let Some((stream, group)) = find(database, &key, &name) else { return Done::Reply(no_group()) };
    if from != b">" {
        let ids = group.pending_of(&consumer, id_of(from), count);
        return Done::Reply(of_stream(&key, ids.iter().map(|id| entry(*id, stream.get(*id))).collect()));
    }
    let (ids, entries): (Vec<Id>, Vec<Reply>) =
        stream.after(group.delivered, count).map(|(id, fields)| (id, entry(id, Some(fields)))).unzip();
    let nothing = ids.is_empty();
    let deliver = Write::Deliver { key: key.clone(), group: name.clone(), consumer, ids, now: clock };
    if nothing {
        // Only says that the consumer was seen.
        database.apply(&deliver);
        return Done::Nothing { stream: key, group: Some(name) };
    }
    write(database, log, deliver);
    Done::Reply(of_stream(&key, entries))
}

fn group(database: &mut Database, arguments: &mut Arguments<'_>, log: &mut Vec<Write>) -> Reply {
    assert_eq!(arguments.text(), b"CREATE", "programs remove consumers by a script");
    let (key, group) = (arguments.word(), arguments.word());
    if find(database, &key, &group).is_some() {
        return reply::error("BUSYGROUP Consumer Group name already exists");
    }
    write(database, log, Write::CreateGroup { key, group, from: id_of(arguments.text()) });
    Reply::Okay
}

fn claim(database: &mut Database, clock: i64, arguments: &mut Arguments<'_>, log: &mut Vec<Write>) -> Reply {
    let (key, group, consumer) = (arguments.word(), arguments.word(), arguments.word());
    let idle: i64 = number(arguments.text()).unwrap();
    let from = id_of(arguments.text());
    let count = arguments.integer_after("COUNT").unwrap().unwrap_or(100) as usize;
    let Some((stream, found)) = find(database, &key, &group) else { return no_group() };
    let ids = found.idle(from, clock - idle, count);
    let next = if ids.len() == count { ids.last().map(|id| (id.0, id.1 + 1)) } else { None };
    let entries =
        ids.iter().filter_map(|id| stream.get(*id).map(|fields| entry(*id, Some(fields)))).collect();
    write(database, log, Write::Deliver { key, group, consumer, ids, now: clock });
    Reply::Array(vec![reply::id(next.unwrap_or_default()), Reply::Array(entries), Reply::Array(Vec::new())])
}

/// The one script of the programs: removes consumers without pending entries that took nothing for some time.
fn remove_idle(
    database: &mut Database,
    clock: i64,
    arguments: &mut Arguments<'_>,
    log: &mut Vec<Write>,
) -> Reply {
    let script = arguments.text();
    assert!(script.windows(11).any(|word| word == b"DELCONSUMER"), "programs have one script");
    assert_eq!(arguments.text(), b"1");
    let (key, name, own) = (arguments.word(), arguments.word(), arguments.word());
    let idle: i64 = number(arguments.text()).unwrap();
    let Some((_, group)) = find(database, &key, &name) else { return no_group() };
    let has_pending = |consumer: &Word| group.pending.values().any(|pending| pending.consumer == *consumer);
    let is_gone = |(consumer, seen): &(&Word, &i64)| {
        clock - **seen > idle && **consumer != own && !has_pending(consumer)
    };
    let gone: Vec<Word> =
        group.consumers.iter().filter(is_gone).map(|(consumer, _)| consumer.clone()).collect();
    for consumer in gone {
        write(database, log, Write::RemoveConsumer { key: key.clone(), group: name.clone(), consumer });
    }
    Reply::Nil
}

fn find<'a>(database: &'a Database, key: &[u8], group: &[u8]) -> Option<(&'a Stream, &'a Group)> {
    let stream = database.streams.get(key)?;
    Some((stream, stream.groups.get(group)?))
}

fn no_group() -> Reply {
    reply::error("NOGROUP No such key or consumer group")
}

fn of_stream(key: &Word, entries: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::Array(vec![reply::text(key), Reply::Array(entries)])])
}

fn entry(id: Id, fields: Option<&Fields>) -> Reply {
    let fields = fields.map_or(Reply::Nil, reply::fields);
    Reply::Array(vec![reply::id(id), fields])
}

fn pairs(arguments: &mut Arguments<'_>) -> Vec<(Word, Word)> {
    let count = arguments.rest().len() / 2;
    (0..count).map(|_| (arguments.word(), arguments.word())).collect()
}

/// An id, whose sequence number may be left out.
fn id_of(text: &[u8]) -> Id {
    let text = std::str::from_utf8(text).unwrap();
    let (ms, seq) = text.split_once('-').unwrap_or((text, "0"));
    (ms.parse().unwrap(), seq.parse().unwrap())
}
