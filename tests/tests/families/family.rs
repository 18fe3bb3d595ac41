//! What the conformance checks must know of a family of values, and helpers that they share.

use std::fmt::Debug;

use allot_core::shared::payload::Payload;
use allot_tests::damage::Dump;
use allot_tests::garbage::Garbage;
use allot_tests::raw::{RawClient, Reply};
use allot_tests::stream::{Command, readable};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, eventually};

/// The key of a family's sample value, and two more keys in the same slot.
pub(crate) const KEY: &str = "{f}:value";
pub(crate) const TWIN: &str = "{f}:twin";
pub(crate) const OTHER: &str = "{f}:other";

/// Commands on a sample value. The word `@` stands for its key.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Reads whose replies do not depend on the time, except for projections.
    pub(crate) reads: Vec<String>,
    /// Write commands with arguments that can be parsed.
    pub(crate) writes: Vec<String>,
    /// Calls that are refused, repeated or only read: none of them changes the value.
    pub(crate) unchanged: Vec<String>,
    /// Calls, in this order, each of which changes the value.
    pub(crate) changes: Vec<String>,
    /// Two more changes that can be repeated by turns, at any time.
    pub(crate) toggle: [String; 2],
}

/// The state of a family as the core keeps it, rebuilt from replicated events.
pub(crate) trait State: Sized {
    type Event: Debug;

    fn decode_events(payload: &[u8]) -> Vec<Self::Event>;
    /// The state after the first event.
    fn open(first: &Self::Event, at: i64) -> Self;
    /// Applies an event that must fit the state.
    fn apply_checked(&mut self, at: i64, event: &Self::Event);
    fn snapshot(&self) -> Vec<u8>;
    /// Why these bytes are no snapshot; nothing where they are one.
    fn decode_error(bytes: &[u8]) -> Option<String>;
}

/// Implements [`State`] by the functions of the same meaning, which every family has.
macro_rules! state {
    ($state:ty, $event:ty, $open:expr) => {
        impl crate::family::State for $state {
            type Event = $event;

            fn decode_events(payload: &[u8]) -> Vec<$event> {
                <$event as allot_core::shared::machine::MachineEvent>::decode_all(payload)
                    .expect("events")
                    .into_iter()
                    .collect()
            }

            fn open(first: &$event, at: i64) -> Self {
                let open: fn(&$event, i64) -> Self = $open;
                open(first, at)
            }

            fn apply_checked(&mut self, at: i64, event: &$event) {
                self.admits(event).unwrap_or_else(|damaged| panic!("{damaged}: {event:?}"));
                self.apply(at, event);
            }

            fn snapshot(&self) -> Vec<u8> {
                self.encode()
            }

            fn decode_error(bytes: &[u8]) -> Option<String> {
                Self::decode(bytes).err().map(|damaged| format!("{damaged:?}"))
            }
        }
    };
}
pub(crate) use state;

/// A family of values.
pub(crate) trait Family {
    /// Its values' type, as `TYPE` and `SCAN` name it.
    const TYPE: &'static str;
    /// The command that carries a master's decisions.
    const APPLY: &'static str;
    /// The counter of `INFO allot` for what [`start_short`](Self::start_short) starts and the timer ends.
    const ENDED: &'static str;
    /// The gauge of `INFO allot` that [`start_short`](Self::start_short) raises, where there is one.
    const LIVE: Option<&'static str>;

    type State: State;
    /// What a random workload knows at its end.
    type Workload;
    /// What [`observe`](Self::observe) collects of a replication stream.
    type Log: Default;

    /// Makes the sample value. Nothing in it ends by itself within an hour.
    fn create(client: &mut RawClient, key: &str) -> Lines;

    /// Starts something on a sample value that the timer ends after so many milliseconds.
    fn start_short(client: &mut RawClient, key: &str, ttl_ms: u64);

    /// The key that a random workload of this seed writes.
    fn workload_key(seed: u64) -> String;

    /// Runs so many random commands on that key.
    fn run_workload(server: &RedisServer, seed: u64, steps: usize) -> Self::Workload;

    /// Runs so many more random commands on the key of a workload, also after its server was restarted. A family whose
    /// workloads share one key starts another workload with this seed.
    fn continue_workload(server: &RedisServer, workload: &mut Self::Workload, seed: u64, steps: usize) {
        *workload = Self::run_workload(server, seed, steps);
    }

    /// Waits until nothing more happens by itself.
    fn settle(server: &RedisServer, _seed: u64) {
        settled(server);
    }

    /// A digest of what must survive a restart.
    fn digest(server: &RedisServer) -> String {
        server.digest()
    }

    /// Whether a change of the value may replicate this command on one of the streams beside the value's key.
    /// `stream` is what follows the key and a colon.
    fn may_replicate(_command: &str, _stream: &str) -> bool {
        false
    }

    /// An event of the replication stream, before it is applied.
    fn observe(
        log: &mut Self::Log,
        at: i64,
        event: &<Self::State as State>::Event,
        before: Option<&Self::State>,
    );

    /// Compares what was replicated with what the workload was told. `entries` counts the `XADD`s.
    fn compare(log: Self::Log, workload: &Self::Workload, entries: usize);

    /// What a workload was promised, and a server that was killed must still know.
    fn keeps_promises(_server: &RedisServer, _workload: &Self::Workload) {}

    /// Uses what a workload was promised. It does not exist afterwards.
    fn redeem_promises(_server: &RedisServer, _workload: &Self::Workload) {}

    /// Payloads of values with as many kinds of state as possible.
    fn dumps(server: &RedisServer) -> Vec<Dump>;

    /// Where in a value most of the damage is to be done.
    fn damage_from(_value: &[u8]) -> usize {
        0
    }

    /// How many damaged payloads are tried.
    const DAMAGED: usize;

    /// Uses a value that was let in like any other; a few refusals are right, an internal error never is.
    fn use_value(client: &mut RawClient, key: &str);

    /// Its commands, calls that make sense, and words, for random calls.
    const GARBAGE: Garbage<'static>;

    /// Makes the value `k` of the random calls.
    fn begin_garbage(client: &mut RawClient);

    /// Checks the sums of a value during random calls.
    fn check_sums(_client: &mut RawClient, _key: &str) {}

    /// Fills one value with many entries, and returns its key.
    fn fill(server: &RedisServer) -> String;
}

/// Sends a line with the key in the place of `@`. The numbers of projections, which depend on the time of the reply, are
/// taken out.
pub(crate) fn send(client: &mut RawClient, line: &str, key: &str) -> Reply {
    without_projections(client.call(&words(line, key)))
}

/// Sends these lines at once, with the key in the place of `@`, and reads the replies to all of them.
pub(crate) fn send_all(client: &mut RawClient, lines: &[&str], key: &str) -> Vec<Reply> {
    client.pipeline(&lines.iter().map(|line| words(line, key)).collect::<Vec<_>>())
}

fn without_projections(reply: Reply) -> Reply {
    let Reply::Array(items) = reply else { return reply };
    let mut is_projection = false;
    let items = items.into_iter().map(|item| {
        let kept = if is_projection { Reply::Null } else { without_projections(item) };
        is_projection = matches!(&kept, Reply::Bulk(name) if name.starts_with(b"projected"));
        kept
    });
    Reply::Array(items.collect())
}

/// Sends a line that must not be refused.
#[track_caller]
pub(crate) fn send_ok(client: &mut RawClient, line: &str, key: &str) -> Reply {
    let reply = send(client, line, key);
    assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    reply
}

/// The words of a line with the key in the place of `@`.
pub(crate) fn words<'a>(line: &'a str, key: &'a str) -> Vec<&'a str> {
    line.split_ascii_whitespace().map(|word| if word == "@" { key } else { word }).collect()
}

/// Lines as texts of their own.
pub(crate) fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|&line| line.to_owned()).collect()
}

/// Waits until the data of a server stay the same for a while.
pub(crate) fn settled(server: &RedisServer) {
    eventually("all short deadlines to pass", TIMEOUT, || {
        let digest = || {
            std::thread::sleep(std::time::Duration::from_millis(150));
            server.digest()
        };
        // A server that was kept waiting answers once more before its timer runs.
        let first = digest();
        first == digest() && first == digest()
    });
}

/// Time and events of a replicated `APPLY` command.
#[track_caller]
pub(crate) fn decode_apply<F: Family>(command: &Command) -> (i64, Vec<<F::State as State>::Event>) {
    let line = readable(std::slice::from_ref(command));
    assert_eq!((command.len(), &command[0][..]), (3, F::APPLY.as_bytes()), "{line}");
    match Payload::read(&command[1], &command[2]) {
        Ok(Payload::Events { at, events }) => (at, F::State::decode_events(events)),
        other => panic!("{other:?}"),
    }
}

/// A replica that panics when a replicated command fails must be alive and without any error.
#[track_caller]
pub(crate) fn has_no_errors(server: &RedisServer) {
    assert!(server.is_running(), "{}", server.log());
    assert_eq!(server.info_field("stats", "unexpected_error_replies"), "0", "{}", server.log());
    allot_tests::shows::no_internal_errors(server);
}
