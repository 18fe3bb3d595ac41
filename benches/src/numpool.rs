//! Number pools: the four events of a call's life in pools of three sizes; the same events by the Functions library,
//! and by the plain script of existing systems over a list and a hash.

use std::cell::{Cell, RefCell};

use allot_tests::RedisServer;

use crate::bench::{Bench, Case};
use crate::load::{self, CONNECTIONS, PIPELINE, encode};

/// Requests of a run if each takes microseconds.
const REQUESTS: usize = 200_000;
/// Requests of a run if each walks a long list.
const SLOW_REQUESTS: usize = CONNECTIONS * PIPELINE;

/// The measured commands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Call,
    HangUp,
    Unreg,
    Reg,
}

/// The command line of each measurement.
trait System {
    const NAME: &'static str;
    /// Fills a pool with idle and registered numbers, in this order.
    fn fill(&self, server: &RedisServer, pool: usize, numbers: &[String]);
    fn request(&self, event: Event, pool: usize, number: &str) -> Vec<u8>;
    /// Unregisters numbers of a pool all at once, for a system that would otherwise walk a list for each of them.
    /// Returns whether the system has such a way.
    fn take_down(&self, server: &RedisServer, pool: usize, numbers: &[String]) -> bool;
}

/// Measures the family.
pub(crate) fn measure(bench: &Bench, server: &RedisServer) {
    let mut connection = server.connection();
    let read = |path: &str| {
        std::fs::read_to_string(allot_tests::module::repository().join(path)).expect("a file of ours")
    };
    let _: String = redis::cmd("FUNCTION")
        .arg(&["LOAD", "REPLACE", &read("lua/allot.lua")])
        .query(&mut connection)
        .expect("FUNCTION LOAD");
    let sha: String = redis::cmd("SCRIPT")
        .arg(&["LOAD", &read("benches/scripts/numpool.lua")])
        .query(&mut connection)
        .expect("SCRIPT LOAD");
    for size in [1000, 100_000, 1_000_000] {
        measure_system(bench, server, size, &Module);
        measure_system(bench, server, size, &Functions);
        measure_system(bench, server, size, &Script { sha: sha.clone() });
    }
}

fn measure_system<S: System>(bench: &Bench, server: &RedisServer, size: usize, system: &S) {
    let events =
        [(Event::Call, "CALL"), (Event::HangUp, "HANGUP"), (Event::Reg, "REG"), (Event::Unreg, "UNREG")];
    let name = |event: &str| format!("{}{event}, {size} numbers", S::NAME);
    if !events.iter().any(|(_, event)| bench.wants(&name(event))) {
        return;
    }
    let ping = Case::repeated("PING", 400_000, &["PING"]);
    let pools = Pools::fill(server, size, system);
    for (event, word) in events {
        bench.measure(server, &pools.case(&name(word), event), &ping);
    }
    let () = redis::cmd("FLUSHALL").query(&mut server.connection()).expect("FLUSHALL");
}

/// Pools of one size, as many as a run needs. The numbers of each pool form groups. A run uses one group of each pool,
/// and the next run uses the next group, which is then at the head of the queue.
struct Pools<'a, S> {
    server: &'a RedisServer,
    system: &'a S,
    numbers: Vec<String>,
    count: usize,
    group: usize,
    turn: Cell<usize>,
    /// The event and the group that restore the pools to their state before the last run.
    undo: RefCell<Option<(Event, usize)>>,
}

impl<'a, S: System> Pools<'a, S> {
    fn fill(server: &'a RedisServer, size: usize, system: &'a S) -> Self {
        let numbers: Vec<String> = (0..size).map(|number| format!("138{number:08}")).collect();
        let count = (REQUESTS / size).max(1);
        for pool in 0..count {
            system.fill(server, pool, &numbers);
        }
        let group = size.min(REQUESTS);
        // The turn before the first one.
        let turn = Cell::new(size / group - 1);
        Self { server, system, numbers, count, group, turn, undo: RefCell::new(None) }
    }

    fn case(&self, name: &str, event: Event) -> Case<'_> {
        let walks = S::NAME != Module::NAME && event == Event::Unreg && self.group > 1000;
        let requests = if walks { SLOW_REQUESTS } else { REQUESTS };
        let mut case = Case::new(name, requests, move |connection| {
            self.batches(event, self.turn.get(), connection, requests)
        });
        if walks {
            case.runs = Some(1);
        }
        case.prepare = Box::new(move || {
            if let Some((inverse, turn)) = self.undo.take() {
                self.run(inverse, turn, requests);
            }
            self.turn.set((self.turn.get() + 1) % (self.numbers.len() / self.group));
            let turn = self.turn.get();
            match event {
                Event::Call => *self.undo.borrow_mut() = Some((Event::HangUp, turn)),
                Event::HangUp => self.run(Event::Call, turn, requests),
                Event::Unreg => *self.undo.borrow_mut() = Some((Event::Reg, turn)),
                Event::Reg => self.take_down(turn, requests),
            }
        });
        case
    }

    fn run(&self, event: Event, turn: usize, requests: usize) {
        let rate = load::run(self.server, requests, PIPELINE, |connection| {
            self.batches(event, turn, connection, requests)
        });
        assert_eq!(rate.errors, 0, "preparing a run");
    }

    fn take_down(&self, turn: usize, requests: usize) {
        let numbers = &self.numbers[turn * self.group..(turn + 1) * self.group];
        let mut done = false;
        for pool in 0..self.count {
            done = self.system.take_down(self.server, pool, numbers);
        }
        if !done {
            self.run(Event::Unreg, turn, requests);
        }
    }

    /// Each connection's part of a group, in no order.
    fn batches(&self, event: Event, turn: usize, connection: usize, requests: usize) -> Vec<Vec<u8>> {
        let mine = requests / CONNECTIONS;
        let numbers = (connection * mine..(connection + 1) * mine).map(|place| {
            // A step that has no factor in common with the number of requests visits each place once.
            let place = place * 7919 % requests;
            (place % self.count, turn * self.group + place / self.count)
        });
        let requests: Vec<Vec<u8>> =
            numbers.map(|(pool, number)| self.system.request(event, pool, &self.numbers[number])).collect();
        requests.chunks(PIPELINE).map(<[_]>::concat).collect()
    }
}

/// The commands `NUMPOOL.*`.
struct Module;

impl System for Module {
    const NAME: &'static str = "";

    fn fill(&self, server: &RedisServer, pool: usize, numbers: &[String]) {
        let key = format!("{{pool{pool}}}");
        for numbers in numbers.chunks(10_000) {
            for command in ["NUMPOOL.ADD", "NUMPOOL.REG"] {
                let mut command = redis::cmd(command);
                command.arg(&key).arg(numbers);
                let _: usize = command.query(&mut server.connection()).expect("a pool");
            }
        }
    }

    fn take_down(&self, _: &RedisServer, _: usize, _: &[String]) -> bool {
        false
    }

    fn request(&self, event: Event, pool: usize, number: &str) -> Vec<u8> {
        let key = format!("{{pool{pool}}}");
        match event {
            Event::Call => encode(&["NUMPOOL.CALL", &key]),
            Event::HangUp => encode(&["NUMPOOL.HANGUP", &key, number]),
            Event::Reg => encode(&["NUMPOOL.REG", &key, number]),
            Event::Unreg => encode(&["NUMPOOL.UNREG", &key, number]),
        }
    }
}

/// Fills the list and the hash of a pool.
fn fill_list_and_hash(server: &RedisServer, pool: usize, numbers: &[String]) {
    let mut connection = server.connection();
    for numbers in numbers.chunks(10_000) {
        let mut pipe = redis::pipe();
        pipe.cmd("RPUSH").arg(format!("{{pool{pool}}}:idle:up")).arg(numbers).ignore();
        pipe.cmd("HSET").arg(format!("{{pool{pool}}}:numstate"));
        for number in numbers {
            pipe.arg(number).arg(r#"{"callstate":0,"regstate":1}"#);
        }
        pipe.ignore();
        pipe.query::<()>(&mut connection).expect("a list and a hash");
    }
}

/// Changes a list and a hash as if these numbers had been unregistered.
fn take_down_list_and_hash(server: &RedisServer, pool: usize, numbers: &[String]) -> bool {
    let mut connection = server.connection();
    let () = redis::cmd("DEL").arg(format!("{{pool{pool}}}:idle:up")).query(&mut connection).expect("DEL");
    for numbers in numbers.chunks(10_000) {
        let mut command = redis::cmd("HSET");
        command.arg(format!("{{pool{pool}}}:numstate"));
        for number in numbers {
            command.arg(number).arg(r#"{"callstate":0,"regstate":0}"#);
        }
        let () = command.query(&mut connection).expect("HSET");
    }
    true
}

/// The Functions library, `FCALL numpool_*`.
struct Functions;

impl System for Functions {
    const NAME: &'static str = "Functions library: ";

    fn fill(&self, server: &RedisServer, pool: usize, numbers: &[String]) {
        fill_list_and_hash(server, pool, numbers);
    }

    fn take_down(&self, server: &RedisServer, pool: usize, numbers: &[String]) -> bool {
        take_down_list_and_hash(server, pool, numbers)
    }

    fn request(&self, event: Event, pool: usize, number: &str) -> Vec<u8> {
        let keys = [format!("{{pool{pool}}}:idle:up"), format!("{{pool{pool}}}:numstate")];
        let function = match event {
            Event::Call => "numpool_call",
            Event::HangUp => "numpool_hangup",
            Event::Reg => "numpool_reg",
            Event::Unreg => "numpool_unreg",
        };
        let mut arguments = vec!["FCALL", function, "2", &keys[0], &keys[1]];
        if event != Event::Call {
            arguments.push(number);
        }
        encode(&arguments)
    }
}

/// The plain script, `EVALSHA`.
struct Script {
    sha: String,
}

impl System for Script {
    const NAME: &'static str = "list-and-hash script: ";

    fn fill(&self, server: &RedisServer, pool: usize, numbers: &[String]) {
        fill_list_and_hash(server, pool, numbers);
    }

    fn take_down(&self, server: &RedisServer, pool: usize, numbers: &[String]) -> bool {
        take_down_list_and_hash(server, pool, numbers)
    }

    fn request(&self, event: Event, pool: usize, number: &str) -> Vec<u8> {
        let key = format!("{{pool{pool}}}");
        let event_name = match event {
            Event::Call => "call",
            Event::HangUp => "hangup",
            Event::Reg => "reg",
            Event::Unreg => "unreg",
        };
        let mut arguments = vec!["EVALSHA", &self.sha, "1", &key, event_name];
        if event != Event::Call {
            arguments.push(number);
        }
        encode(&arguments)
    }
}
