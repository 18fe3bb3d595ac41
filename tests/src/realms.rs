//! Realms to test with, and the questions that most tests ask of one.

use std::ops::{Deref, DerefMut};

use crate::keyed::KeyedClient;
use crate::random::Random;
use crate::raw::Reply;
use crate::redis_server::RedisServer;

/// The realm of most tests.
pub const REALM: &str = "{r}:conf";
/// Three units.
pub const UNITS: [&str; 3] = ["a:1:1", "b:1:1", "c:1:1"];

/// A client of a realm: every call is on [`REALM`].
#[derive(Debug)]
pub struct Realm {
    keyed: KeyedClient,
}

impl Realm {
    /// Over a connection of its own; the realm exists.
    pub fn of(server: &RedisServer) -> Self {
        Self { keyed: KeyedClient::new(server.raw(), "", REALM) }
    }

    /// Makes the realm, with these units of room for 100,000 conferences each and leases that no test outlives.
    #[track_caller]
    pub fn create(server: &RedisServer, units: &[&str]) -> Self {
        let mut realm = Self::of(server);
        realm.ok("CONF.REALM");
        for cmu in units {
            realm.join(cmu);
        }
        realm
    }

    /// A unit joins.
    #[track_caller]
    pub fn join(&mut self, cmu: &str) {
        self.ok(&format!("CMU.JOIN {cmu} CAPACITY 100000 LEASE 3600000000"));
    }

    /// Creates a conference; its unit and epoch.
    #[track_caller]
    pub fn begin(&mut self, e164: &str, options: &str) -> (String, i64) {
        let record = self.ok(&format!("CONF.CREATE {e164} {options}"));
        (record.field("cmu").text(), record.field("epoch").int())
    }

    /// Creates a conference and has it opened; its unit and epoch.
    #[track_caller]
    pub fn open(&mut self, e164: &str) -> (String, i64) {
        let (cmu, epoch) = self.begin(e164, "");
        assert_eq!(self.ok(&format!("CONF.ACK {e164} {cmu} {epoch}")), Reply::Simple("OK".into()));
        (cmu, epoch)
    }

    /// The unit, epoch and state of a conference.
    #[track_caller]
    pub fn place(&mut self, e164: &str) -> (String, i64, String) {
        let record = self.ok(&format!("CONF.INFO {e164}"));
        let cmu = record.field("cmu");
        let cmu = if cmu.is_null() { String::new() } else { cmu.text() };
        (cmu, record.field("epoch").int(), record.field("state").text())
    }

    /// A total of `CONF.STAT`.
    #[track_caller]
    pub fn stat(&mut self, field: &str) -> i64 {
        self.ok("CONF.STAT").field(field).int()
    }

    /// The entries of one of the realm's streams, each as its values in a row.
    pub fn entries(&mut self, stream: &str) -> Vec<String> {
        let reply = self.client.call(&["XRANGE", &format!("{REALM}:{stream}"), "-", "+"]);
        let text = |entry: &Reply| {
            let values = entry.array()[1].array().chunks(2).map(|pair| pair[1].text());
            values.collect::<Vec<_>>().join(" ").trim_end().to_owned()
        };
        reply.array().iter().map(text).collect()
    }

    /// One of the realm's streams as it stands: ids, fields and values.
    pub fn whole(&mut self, stream: &str) -> Vec<Reply> {
        self.client.call(&["XRANGE", &format!("{REALM}:{stream}"), "-", "+"]).array().to_vec()
    }
}

impl Deref for Realm {
    type Target = KeyedClient;

    fn deref(&self) -> &KeyedClient {
        &self.keyed
    }
}

impl DerefMut for Realm {
    fn deref_mut(&mut self) -> &mut KeyedClient {
        &mut self.keyed
    }
}

/// A random run of all that changes a realm.
#[derive(Debug)]
pub struct RealmWorkload {
    /// The realm.
    pub realm: Realm,
    random: Random,
    number: usize,
}

impl RealmWorkload {
    /// A run on [`REALM`], which exists.
    pub fn new(server: &RedisServer, seed: u64) -> Self {
        let random = Random::new(seed);
        Self { realm: Realm::of(server), random, number: 0 }
    }

    /// So many random commands.
    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
        }
    }

    fn step(&mut self) {
        self.number += 1;
        let e164 = format!("49{}", self.random.below(30));
        let host = self.random.below(5);
        let cmu = format!("h{host}:1:{}", 1 + self.number / 400);
        let line = match self.random.below(20) {
            0..=3 => {
                let options = ["", "SIZE 3", "NORECOVER", "ZONE z", "PRIORITY 5 REQUEST r"];
                format!("CONF.CREATE {e164} {}", self.random.of(&options))
            }
            4..=7 => return self.word(&e164),
            8 | 9 => return self.write(&e164),
            10 => format!("CONF.RELEASE {e164}"),
            11..=13 => {
                let zone = self.random.of(&["", "ZONE z"]);
                format!("CMU.JOIN {cmu} CAPACITY 12 LEASE {} {zone}", self.random.of(&[40, 3_600_000]))
            }
            14 => format!("CMU.REPORT {cmu} HIGHEST 0 {e164} 5"),
            15 => return self.report(&cmu),
            16 => format!("CMU.DOWN {cmu}"),
            17 => "CONF.RECOVER COUNT 5".to_owned(),
            18 => format!("CONF.MOVE {e164}"),
            _ => self
                .random
                .of(&[
                    "CONF.RESTART LIVE 2 h0:1:1 h1:1:1",
                    "CMU.ASK LIST",
                    "CONF.REALM RETRY 50 CREATETIMEOUT 200",
                ])
                .to_string(),
        };
        self.realm.call(&line);
    }

    fn record(&mut self, e164: &str) -> Option<(String, i64)> {
        let record = self.realm.call(&format!("CONF.INFO {e164}"));
        if matches!(record, Reply::Error(_)) || record.field("cmu").is_null() {
            return None;
        }
        let moving = record.field("moving_to");
        if !moving.is_null() && self.random.once_in(2) {
            return Some((moving.text(), record.field("moving_epoch").int()));
        }
        Some((record.field("cmu").text(), record.field("epoch").int()))
    }

    fn word(&mut self, e164: &str) {
        let Some((cmu, epoch)) = self.record(e164) else { return };
        let verb = *self.random.of(&["ACK", "ACK", "ACK", "NACK", "ENDED"]);
        self.realm.call(&format!("CONF.{verb} {e164} {cmu} {epoch}"));
    }

    fn write(&mut self, e164: &str) {
        let Some((cmu, epoch)) = self.record(e164) else { return };
        let seq = self.number;
        self.realm.call(&format!("CONF.SET {e164} {cmu} {epoch} {seq} members {seq} speaker ann"));
    }

    fn report(&mut self, cmu: &str) {
        let own = self.realm.call(&format!("CONF.LIST CMU {cmu}"));
        let mut line = format!("CMU.REPORT {cmu} HIGHEST 9000000000000000");
        if let Reply::Array(parts) = own {
            for one in parts[1].array() {
                line.extend([" ", &one.field("e164").text(), " ", &one.field("epoch").int().to_string()]);
            }
        }
        self.realm.call(&line);
    }
}
