//! Number pools to test with: filled ones, and random commands on one.

use crate::random::Random;
use crate::raw::{RawClient, Reply};

/// The number at a place.
pub fn number(place: usize) -> String {
    format!("138{place:08}")
}

/// A pool of so many numbers, all registered by a switch.
#[track_caller]
pub fn fill(client: &mut RawClient, key: &str, count: usize) {
    let numbers: Vec<String> = (0..count).map(number).collect();
    for numbers in numbers.chunks(1000) {
        let words = |command: &'static str| {
            let numbers = numbers.iter().map(String::as_str);
            [command, key].into_iter().chain(numbers).collect::<Vec<&str>>()
        };
        assert_eq!(client.call(&words("NUMPOOL.ADD")), Reply::Int(numbers.len() as i64));
        let mut reg = words("NUMPOOL.REG");
        reg.extend(["SWITCH", "sw0"]);
        assert_eq!(client.call(&reg), Reply::Int(numbers.len() as i64));
    }
}

/// A field of `NUMPOOL.INFO` that is a count.
#[track_caller]
pub fn pool_info(client: &mut RawClient, key: &str, field: &str) -> i64 {
    client.call(&["NUMPOOL.INFO", key]).field(field).int()
}

/// The state of a number; `nodata` for one that is not there.
pub fn state_of(client: &mut RawClient, key: &str, number: &str) -> String {
    match client.call(&["NUMPOOL.GET", key, number]) {
        Reply::Error(_) => "nodata".into(),
        record => record.field("state").text(),
    }
}

/// Random commands on a pool of few numbers, of all kinds.
#[derive(Debug)]
pub struct PoolWorkload {
    client: RawClient,
    key: String,
    random: Random,
    tokens: usize,
}

impl PoolWorkload {
    /// Of the pool at `key`, which is made where there is none.
    pub fn new(client: RawClient, key: &str, seed: u64) -> Self {
        Self { client, key: key.into(), random: Random::new(seed), tokens: 0 }
    }

    /// Continues over another connection, after the server was restarted.
    pub fn reconnect(&mut self, client: RawClient) {
        self.client = client;
    }

    /// Sends so many commands. An internal error fails the test; refusals are part of the workload.
    #[track_caller]
    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            let words = self.next();
            if let Reply::Error(text) = self.client.call(&words) {
                assert!(!text.contains("internal"), "{words:?} was answered {text}");
            }
        }
    }

    fn next(&mut self) -> Vec<String> {
        let random = &mut self.random;
        let one = number(random.below(12));
        let (switch, peer) = (format!("sw{}", random.below(3)), format!("peer{}", random.below(4)));
        let time = random.of(&["5", "40", "60000"]).to_string();
        let recent =
            |random: &mut Random, tokens: usize| format!("t{}", tokens.saturating_sub(random.below(8)));
        let line = match random.below(24) {
            0 => format!("ADD {one} {}", number(random.below(12))),
            1 => format!("DEL {one}"),
            2 => format!("DEL {one} DRAIN"),
            3..=5 => format!("REG {one} {} SWITCH {switch}", number(random.below(12))),
            6 => format!("REG {one} TTL {time}"),
            7 => format!("UNREG {one}"),
            8 => format!("UNREG SWITCH {switch}"),
            9..=13 => {
                self.tokens += 1;
                let ttl = if random.once_in(2) { format!(" TTL {time}") } else { String::new() };
                let peer = if random.once_in(2) { format!(" PEER {peer}") } else { String::new() };
                let prefix = if random.once_in(4) { " PREFIX 1 1380000000" } else { "" };
                let pick = random.of(&["LONGEST", "RANDOM", "LEASTUSED", "STICKY"]);
                format!("CALL LEASE t{} PICK {pick}{ttl}{peer}{prefix}", self.tokens)
            }
            14 => format!("CALL {one} SWITCH {switch}"),
            15 => format!("HANGUP {one}"),
            16 => format!("HANGUP {one} LEASE {} COOLDOWN {time}", recent(random, self.tokens)),
            17 => format!("RENEW {one} LEASE {} TTL {time}", recent(random, self.tokens)),
            18 => format!("RECONCILE SWITCH {switch} LEASE {}", recent(random, self.tokens)),
            19 => {
                let limits = ["CAPS 0", "CAPS 1 40 2", "CAPS 2 5 1 60000 30", "RATE 0 0", "RATE 3 40"];
                let peers = ["PEERS 0", "PEERS 2 PEERTTL 40", "PEERS 3 PEERTTL 0"];
                format!("CONFIG {}", random.of(&[&limits[..], &peers].concat()))
            }
            20 => format!("HANGUP {one} CAUSE {}", random.of(&["busy", "spam", "gone"])),
            22 => format!("CAPS {one} {}", random.of(&["0", "1 DAY 3", "2 40 1 60000 9"])),
            21 => format!("CAUSE busy COOLDOWN {time} AFTER {} WITHIN 60000", random.within(1, 4)),
            _ => format!("CONFIG COOLDOWN {} REGTTL 0", random.of(&["0", "0", "10"])),
        };
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        words[0] = format!("NUMPOOL.{}", words[0]);
        words.insert(1, self.key.clone());
        words
    }
}
