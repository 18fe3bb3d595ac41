//! What a unit has, and what follows from each command: the unit's side of the protocol. No clock, no I/O.

use std::collections::BTreeMap;

use allot_client::streams::Entry;

/// What a conference's media has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Planned end, in milliseconds since 1970; empty where there is none.
    pub(crate) end: String,
    /// Room that it takes.
    pub(crate) size: String,
    /// Priority.
    pub(crate) priority: String,
    /// The manager's request.
    pub(crate) request: String,
    /// Whether it went on elsewhere before.
    pub(crate) recovering: bool,
}

/// A command, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Have this conference.
    Create {
        /// Its number.
        e164: String,
        /// The assignment.
        epoch: u64,
        /// More about it.
        facts: Facts,
    },
    /// End the copy of that epoch.
    Release {
        /// Its number.
        e164: String,
        /// The assignment.
        epoch: u64,
    },
    /// The copy has this epoch from now on.
    Epoch {
        /// Its number.
        e164: String,
        /// The new one.
        epoch: u64,
        /// The copy's, as the realm knows it.
        old: u64,
    },
    /// Report the list.
    List,
    /// Tell all details anew.
    Details,
    /// Something that we do not know.
    Unknown,
}

impl Command {
    /// Reads an entry of the unit's stream.
    pub(crate) fn read(entry: &Entry) -> Self {
        let (e164, epoch) = (entry.text("e164"), entry.number("epoch"));
        match entry.text("event").as_str() {
            "CREATE" => {
                let facts = Facts {
                    end: entry.text("end"),
                    size: entry.text("size"),
                    priority: entry.text("priority"),
                    request: entry.text("request"),
                    recovering: entry.text("recovering") == "1",
                };
                Self::Create { e164, epoch, facts }
            }
            "RELEASE" => Self::Release { e164, epoch },
            "EPOCH" => Self::Epoch { e164, epoch, old: entry.number("old") },
            "REPORT" if entry.text("what") == "DETAILS" => Self::Details,
            // What was lost may have been anything; the list brings all of it back.
            "REPORT" | "RESYNC" => Self::List,
            _ => Self::Unknown,
        }
    }
}

/// What is to be done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Act {
    /// End the media of a copy.
    Stop {
        /// Its number.
        e164: String,
    },
    /// Begin the media of a copy, and answer ACK, or NACK and forget it.
    Start {
        /// Its number.
        e164: String,
        /// The assignment.
        epoch: u64,
        /// More about it.
        facts: Facts,
    },
    /// Answer ENDED.
    Ended {
        /// Its number.
        e164: String,
        /// The assignment.
        epoch: u64,
    },
    /// Tell all details of a conference anew.
    Tell {
        /// Its number.
        e164: String,
    },
    /// Tell all details of all.
    TellAll,
    /// Report the list.
    Report,
}

/// The conferences that a unit has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Copies {
    own: BTreeMap<String, u64>,
    highest: u64,
}

impl Copies {
    /// The highest epoch whose CREATE or EPOCH was handled.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// Which there are, with their epochs.
    pub(crate) fn list(&self) -> Vec<(String, u64)> {
        self.own.iter().map(|(e164, epoch)| (e164.clone(), *epoch)).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.own.len()
    }

    /// The epoch of one.
    pub(crate) fn epoch(&self, e164: &str) -> Option<u64> {
        self.own.get(e164).copied()
    }

    /// Whether one of these commands ends a copy, be it that there is now or that those before it make.
    pub(crate) fn end_by(&self, commands: &[Command]) -> bool {
        if !commands.iter().any(|command| matches!(command, Command::Release { .. })) {
            return false;
        }
        let mut ahead = self.clone();
        commands.iter().any(|command| {
            let ends =
                matches!(command, Command::Release { e164, epoch } if ahead.epoch(e164) == Some(*epoch));
            ahead.handle(command.clone());
            ends
        })
    }

    /// What follows from a command.
    pub(crate) fn handle(&mut self, command: Command) -> Vec<Act> {
        match command {
            Command::Create { e164, epoch, facts } => self.create(e164, epoch, facts),
            Command::Release { e164, epoch } if self.epoch(&e164) == Some(epoch) => {
                self.own.remove(&e164);
                vec![Act::Stop { e164: e164.clone() }, Act::Ended { e164, epoch }]
            }
            Command::Epoch { e164, epoch, old } => self.renumber(e164, epoch, old),
            Command::List => vec![Act::Report],
            Command::Details => vec![Act::TellAll],
            Command::Release { .. } | Command::Unknown => Vec::new(),
        }
    }

    fn create(&mut self, e164: String, epoch: u64, facts: Facts) -> Vec<Act> {
        if !self.is_news(epoch) {
            return Vec::new();
        }
        let older = self.own.insert(e164.clone(), epoch);
        let mut acts = Vec::new();
        if older.is_some() {
            acts.push(Act::Stop { e164: e164.clone() });
        }
        acts.push(Act::Start { e164, epoch, facts });
        acts
    }

    fn renumber(&mut self, e164: String, epoch: u64, old: u64) -> Vec<Act> {
        // It may be told again, and other conferences have had later epochs since. What names the very epoch of our copy
        // was not handled yet, since the copy would have the new one.
        let is_ours = old < epoch && self.epoch(&e164) == Some(old);
        if !self.is_news(epoch) && !is_ours {
            return Vec::new();
        }
        match self.own.get_mut(&e164) {
            Some(own) => {
                *own = epoch;
                vec![Act::Tell { e164 }]
            }
            None => vec![Act::Ended { e164, epoch }],
        }
    }

    /// Whether a command of that epoch is new; then it counts as handled.
    fn is_news(&mut self, epoch: u64) -> bool {
        let news = epoch > self.highest;
        self.highest = self.highest.max(epoch);
        news
    }

    /// Its media could not begin, or has ended; its epoch, if we had it.
    pub(crate) fn forget(&mut self, e164: &str) -> Option<u64> {
        self.own.remove(e164)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(e164: &str, epoch: u64) -> Command {
        Command::Create { e164: e164.into(), epoch, facts: Facts::default() }
    }

    fn release(e164: &str, epoch: u64) -> Command {
        Command::Release { e164: e164.into(), epoch }
    }

    fn renumber(e164: &str, old: u64, epoch: u64) -> Command {
        Command::Epoch { e164: e164.into(), epoch, old }
    }

    fn start(e164: &str, epoch: u64) -> Act {
        Act::Start { e164: e164.into(), epoch, facts: Facts::default() }
    }

    fn stop(e164: &str) -> Act {
        Act::Stop { e164: e164.into() }
    }

    fn ended(e164: &str, epoch: u64) -> Act {
        Act::Ended { e164: e164.into(), epoch }
    }

    #[test]
    fn a_creation_is_handled_once_and_never_after_a_later_one() {
        let mut copies = Copies::default();
        assert_eq!(copies.handle(create("1", 5)), [start("1", 5)]);
        assert_eq!(copies.handle(create("1", 5)), []);
        assert_eq!(copies.handle(create("2", 4)), []);
        assert_eq!((copies.list(), copies.highest()), (vec![("1".into(), 5)], 5));
    }

    #[test]
    fn a_newer_copy_takes_the_place_of_an_older_one() {
        let mut copies = Copies::default();
        copies.handle(create("1", 5));
        assert_eq!(copies.handle(create("1", 6)), [stop("1"), start("1", 6)]);
        assert!(!copies.end_by(&[release("1", 5)]));
        assert_eq!(copies.handle(release("1", 5)), []);
        assert!(copies.end_by(&[release("1", 6)]));
        assert_eq!(copies.handle(release("1", 6)), [stop("1"), ended("1", 6)]);
        assert_eq!(copies.len(), 0);
        assert_eq!(copies.handle(release("1", 6)), []);
    }

    #[test]
    fn another_epoch_makes_it_tell_all_or_say_that_it_has_none() {
        let mut copies = Copies::default();
        copies.handle(create("1", 5));
        assert_eq!(copies.handle(renumber("1", 5, 7)), [Act::Tell { e164: "1".into() }]);
        assert_eq!(copies.handle(renumber("1", 5, 7)), []);
        assert_eq!(copies.handle(renumber("2", 6, 8)), [ended("2", 8)]);
        assert_eq!((copies.epoch("1"), copies.highest()), (Some(7), 8));
        // A creation from before the adoption comes too late.
        assert_eq!(copies.handle(create("3", 6)), []);
    }

    #[test]
    fn an_epoch_that_is_told_again_counts_though_others_came_between() {
        let mut copies = Copies::default();
        copies.handle(create("1", 5));
        copies.handle(create("9", 11));
        assert_eq!(copies.handle(renumber("1", 4, 10)), [], "it is not of this copy");
        assert_eq!(copies.handle(renumber("2", 3, 10)), []);
        assert_eq!(copies.handle(renumber("1", 5, 10)), [Act::Tell { e164: "1".into() }]);
        assert_eq!(copies.handle(renumber("1", 5, 10)), []);
        assert_eq!(copies.handle(renumber("1", 10, 9)), [], "epochs grow");
        assert_eq!((copies.epoch("1"), copies.highest()), (Some(10), 11));
    }

    #[test]
    fn a_copy_may_be_ended_by_what_comes_with_its_epoch() {
        let mut copies = Copies::default();
        copies.handle(create("1", 5));
        assert!(copies.end_by(&[renumber("1", 5, 7), release("1", 7)]));
        assert!(copies.end_by(&[create("2", 8), release("2", 8)]));
        assert!(!copies.end_by(&[renumber("1", 5, 7), release("1", 5)]));
        assert!(!copies.end_by(&[release("1", 7), renumber("1", 5, 7)]));
        assert_eq!((copies.list(), copies.highest()), (vec![("1".into(), 5)], 5));
    }

    #[test]
    fn entries_are_read_as_commands() {
        let entry = |text: &str| {
            let words: Vec<&str> = text.split(' ').collect();
            let fields = words.chunks(2).map(|pair| (pair[0].into(), pair[1].into())).collect();
            Command::read(&Entry { id: "1-0".into(), fields })
        };
        assert_eq!(entry("event RELEASE e164 1 cmu a epoch 5"), release("1", 5));
        assert_eq!(entry("event EPOCH e164 1 cmu a epoch 5 old 4"), renumber("1", 4, 5));
        assert_eq!(entry("event REPORT e164  cmu a epoch 0 what DETAILS"), Command::Details);
        assert_eq!(entry("event REPORT e164  cmu a epoch 0 what LIST"), Command::List);
        assert_eq!(entry("event RESYNC e164  cmu a epoch 0"), Command::List);
        assert_eq!(entry("event SING e164 1"), Command::Unknown);
        let Command::Create { facts, .. } = entry(
            "event CREATE e164 1 cmu a epoch 5 end 9 size 2 priority 3 request r recovering 1 moving 0",
        ) else {
            panic!("a creation")
        };
        assert_eq!((facts.end.as_str(), facts.size.as_str(), facts.recovering), ("9", "2", true));
    }
}
