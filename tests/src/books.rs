//! Books of accounts to test with, and a random run of all that changes one.

use std::ops::{Deref, DerefMut};

use allot_core::account::decide::MAX_BATCH;

use crate::keyed::KeyedClient;
use crate::random::Random;
use crate::raw::Reply;
use crate::redis_server::RedisServer;

/// The book of most tests.
pub const BOOK: &str = "{allot}:accounts";

/// A client of a book: every call is on [`BOOK`].
#[derive(Debug)]
pub struct Book {
    keyed: KeyedClient,
}

impl Book {
    /// Over a connection of its own; the book exists.
    pub fn of(server: &RedisServer) -> Self {
        Self { keyed: KeyedClient::new(server.raw(), "ACCOUNT.", BOOK) }
    }

    /// Makes the book with a module `m` of so many places.
    #[track_caller]
    pub fn create(server: &RedisServer, places: usize) -> Self {
        let mut book = Self::of(server);
        book.ok("BOOK");
        book.ok(&format!("MODULE m DEPARTMENT d INSTANCES {places} SHARE PRESENT"));
        book
    }

    /// Adds accounts `p0`, `p1`, ... of 100 instructions, 50 more at 0.1 and all others at 0.5.
    #[track_caller]
    pub fn add(&mut self, module: &str, numbers: std::ops::Range<usize>) {
        let names: Vec<String> = numbers.map(|number| format!("p{number}")).collect();
        let tiers = "TIERS 2 150 0.1 1000 0.5";
        for some in names.chunks(MAX_BATCH) {
            self.ok(&format!("ADD {module} QUOTA 100 {tiers} ACCOUNTS {} {}", some.len(), some.join(" ")));
        }
    }

    /// A field of an account's record.
    #[track_caller]
    pub fn account(&mut self, account: &str, field: &str) -> Reply {
        self.ok(&format!("INFO ACCOUNT {account}")).field(field)
    }

    /// A total of the book's record.
    #[track_caller]
    pub fn total(&mut self, field: &str) -> i64 {
        self.ok("INFO").field(field).int()
    }

    /// How many accounts each instance of a module has.
    #[track_caller]
    pub fn shares(&mut self, module: &str) -> Vec<i64> {
        let attached = self.ok(&format!("INFO MODULE {module}")).field("attached");
        attached.array().iter().map(|one| one.field("assigned").int()).collect()
    }
}

impl Deref for Book {
    type Target = KeyedClient;

    fn deref(&self) -> &KeyedClient {
        &self.keyed
    }
}

impl DerefMut for Book {
    fn deref_mut(&mut self) -> &mut KeyedClient {
        &mut self.keyed
    }
}

/// A random run of all that changes a book.
#[derive(Debug)]
pub struct BookWorkload {
    /// The book.
    pub book: Book,
    random: Random,
}

impl BookWorkload {
    /// A run on [`BOOK`], which exists.
    pub fn new(server: &RedisServer, seed: u64) -> Self {
        Self { book: Book::of(server), random: Random::new(seed) }
    }

    /// So many random commands.
    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
        }
    }

    fn step(&mut self) {
        let module = *self.random.of(&["m", "n"]);
        let instance = *self.random.of(&["a", "b", "c", "d"]);
        let account = format!("p{}", self.random.below(40));
        let line = match self.random.below(20) {
            0 => format!(
                "MODULE {module} DEPARTMENT d INSTANCES {} SHARE PRESENT RESERVE {}",
                self.random.below(4),
                self.random.below(3)
            ),
            1 | 2 => {
                let tariff = *self.random.of(&["QUOTA 100 TIERS 1 200 0.25", "QUOTA 50"]);
                format!("ADD {module} {tariff} ACCOUNTS 2 {account} {account}x")
            }
            3 => format!("DEL 1 {account}"),
            4 => format!("MOVE {module} 1 {account}"),
            5 => format!("FREEZE {account} {}", self.random.of(&["", "OFF"])),
            6..=8 => format!("ATTACH {module} {instance}"),
            9 => format!("DETACH {module} {instance} GRACE {}", self.random.of(&[0, 30])),
            10 => "REBALANCE".to_owned(),
            11 => "BOOK DWELL 0".to_owned(),
            _ => return self.work(&account),
        };
        self.book.call(&line);
    }

    fn work(&mut self, account: &str) {
        let record = self.book.call(&format!("INFO ACCOUNT {account}"));
        if matches!(record, Reply::Error(_)) || record.field("instance").is_null() {
            return;
        }
        let (instance, login) = (record.field("instance").text(), record.field("login_epoch"));
        let line = if login.is_null() {
            let ttl = self.random.of(&[20, 3_600_000]);
            format!("LOGIN {account} {instance} t TTL {ttl}")
        } else {
            let epoch = login.int();
            match self.random.below(4) {
                0 => format!("LOGOUT {account} {epoch}"),
                1 => format!("RENEW {account} {epoch} TTL 3600000"),
                _ => format!("USE {account} {epoch} COUNT 9"),
            }
        };
        self.book.call(&line);
    }
}
