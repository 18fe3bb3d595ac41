//! What no client should send: commands of random words, and real ones with a word changed, left out or doubled.

use crate::damage::mutate;
use crate::random::Random;
use crate::raw::{RawClient, Reply};

/// Words that are wrong somewhere: limits of numbers, names of keys, bytes that are no text.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "1000",
    "1001",
    "2147483648",
    "9007199254740991",
    "9007199254740992",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1e3",
    "101",
    "100",
    "inf",
    "nan",
    " 1",
    "1.5",
    "4294967296",
    "4096",
    "-2147483649",
    "2147483647",
    "007",
    "+1",
    "",
    "k",
    "k2",
    "s",
    "none",
    "\u{100}",
    "\0",
    "%s%n",
    "\r\n",
];

/// Codes that a command may be refused with.
const CODES: &[&str] = &[
    "ERR",
    "WRONGTYPE",
    "NOKEY",
    "EXISTS",
    "NOADJACENT",
    "NOTFOUND",
    "BADSTATE",
    "NOTOWNER",
    "STALE",
    "LIMIT",
    "ENDED",
    "INVALIDOBJ",
];

/// The words of a family. Its value is under the key `k`; `s` holds a string.
#[derive(Clone, Copy, Debug)]
pub struct Garbage<'a> {
    /// How many calls are sent in a short run.
    pub steps: usize,
    /// Its commands.
    pub commands: &'a [&'a str],
    /// Calls that are right, on `k`.
    pub templates: &'a [&'a str],
    /// Its names and keywords.
    pub words: &'a [&'a str],
    /// A document that the family takes as an argument. It is sent with some bytes changed.
    pub document: Option<&'a str>,
}

/// How many calls are sent at once.
const BATCH: usize = 20;

impl Garbage<'_> {
    fn word(&self, random: &mut Random) -> Vec<u8> {
        match random.below(9) {
            8 if self.document.is_some() => {
                let mut document = self.document.unwrap_or_default().as_bytes().to_vec();
                mutate(random, &mut document);
                document
            }
            0 => {
                let len = *random.of(&[0, 1, 255, 256, 257, 1000]);
                vec![*random.of(&[b'a', b':', 0, 0xff]); len]
            }
            1 => {
                let len = random.below(40);
                random.bytes(len)
            }
            2..=4 => random.of(WORDS).as_bytes().to_vec(),
            _ => random.of(self.words).as_bytes().to_vec(),
        }
    }

    fn call(&self, random: &mut Random) -> Vec<Vec<u8>> {
        if random.once_in(6) {
            let command = random.of(self.commands).as_bytes().to_vec();
            let words = random.below(8);
            return std::iter::once(command).chain((0..words).map(|_| self.word(random))).collect();
        }
        let template = random.of(self.templates).split(' ');
        let mut call: Vec<Vec<u8>> = template.map(|word| word.as_bytes().to_vec()).collect();
        let changes = *random.of(&[0, 0, 0, 1, 1, 2]);
        for _ in 0..changes {
            let at = random.within(1, call.len() - 1);
            match random.below(6) {
                0 => drop(call.remove(at)),
                1 => call.insert(at, self.word(random)),
                2 => {
                    let again = call[at].clone();
                    call.push(again);
                }
                _ => call[at] = self.word(random),
            }
            if call.len() < 2 {
                break;
            }
        }
        call
    }

    /// Sends so many calls, 20 at once, by turns over these connections. Before every 500 of them `begin` checks what
    /// is there and makes a new value. Each call is answered; a refusal has a code of the contract and readable text, and is never
    /// `internal`.
    #[track_caller]
    pub fn pour(
        &self,
        clients: &mut [RawClient],
        seed: u64,
        steps: usize,
        mut begin: impl FnMut(&mut RawClient),
    ) {
        let mut random = Random::new(seed);
        let (mut fine, mut refused) = (0, 0);
        for batch in 0..steps / BATCH {
            let at = batch % clients.len();
            let client = &mut clients[at];
            if (batch * BATCH).is_multiple_of(500) {
                client.words("SET s text");
                begin(client);
            }
            let calls: Vec<_> = (0..BATCH).map(|_| self.call(&mut random)).collect();
            for (call, reply) in calls.iter().zip(client.pipeline(&calls)) {
                let Reply::Error(text) = reply else {
                    fine += 1;
                    continue;
                };
                refused += 1;
                let code = text.split(' ').next().unwrap_or_default();
                assert!(
                    CODES.contains(&code) && !text.contains("internal"),
                    "{call:?} was answered {text:?}"
                );
                assert!(text.is_ascii() && text.len() < 2000, "{text:?}");
            }
        }
        assert!(fine > steps / 60 && refused > steps / 60, "{fine} fine, {refused} refused");
    }
}
