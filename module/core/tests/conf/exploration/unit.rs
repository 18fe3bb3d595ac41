//! The side of a media unit: a small model of `LocalConferences` and of the sessions of allotd's role `media-unit`, which
//! the core cannot call. docs/conferences.md says the same under "What a unit does".

/// A number of an assignment; those of a small world are small.
pub(crate) type Epoch = u32;

/// A message in the stream of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Create {
        e164: usize,
        epoch: Epoch,
    },
    Epoch {
        e164: usize,
        epoch: Epoch,
        old: Epoch,
    },
    Release {
        e164: usize,
        epoch: Epoch,
        over: bool,
    },
    /// Report your list.
    List,
}

/// A copy of a conference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copy {
    /// All epochs that the copy had, the present one last.
    pub(crate) epochs: Vec<Epoch>,
    /// Whether people could join.
    pub(crate) open: bool,
}

impl Copy {
    pub(crate) fn epoch(&self) -> Epoch {
        *self.epochs.last().expect("a copy has an epoch")
    }

    /// The epoch of its CREATE.
    pub(crate) fn created(&self) -> Epoch {
        self.epochs[0]
    }
}

/// A conference that ended on the unit, by people or because RELEASE said that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    pub(crate) e164: usize,
    pub(crate) epoch: Epoch,
    /// The epoch of the CREATE of the copy.
    pub(crate) created: Epoch,
}

/// A word of a unit about one assignment, which is under way: it arrives at once, late, more than once, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Word {
    Ack,
    Nack,
    Failed,
    /// `CONF.ENDED` with `RELEASED`.
    GivenUp,
}

pub(crate) const WORDS: [Word; 4] = [Word::Ack, Word::Nack, Word::Failed, Word::GivenUp];

/// A report that was made and is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) highest: Epoch,
    pub(crate) ended: Vec<(usize, Epoch)>,
    pub(crate) starting: Vec<(usize, Epoch)>,
    pub(crate) open: Vec<(usize, Epoch)>,
}

/// The true state of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Its copies, by conference.
    pub(crate) copies: [Option<Copy>; 2],
    /// The highest epoch of a CREATE or EPOCH that it handled.
    pub(crate) highest: Epoch,
    /// What it repeats in each session, in ascending order.
    pub(crate) ends: Vec<End>,
    /// Its words under way, in ascending order.
    pub(crate) words: Vec<(Word, usize, Epoch)>,
    /// A report under way.
    pub(crate) late: Option<Report>,
    /// Whether it has a session with the master.
    pub(crate) has_session: bool,
}

impl Unit {
    pub(crate) fn says(&mut self, word: Word, e164: usize, epoch: Epoch) {
        if let Err(place) = self.words.binary_search(&(word, e164, epoch)) {
            self.words.insert(place, (word, e164, epoch));
        }
    }

    fn ends(&mut self, end: End) {
        if let Err(place) = self.ends.binary_search(&end) {
            self.ends.insert(place, end);
        }
    }

    /// The copy is gone, and the unit repeats its end at each of its epochs. The epoch of the copy's CREATE.
    pub(crate) fn end(&mut self, e164: usize) -> Option<Epoch> {
        let copy = self.copies[e164].take()?;
        let created = copy.created();
        copy.epochs.iter().for_each(|&epoch| self.ends(End { e164, epoch, created }));
        Some(created)
    }

    /// Handles a message. The conference that is over because of it, with the epoch of the copy's CREATE.
    pub(crate) fn handle(&mut self, told: Told) -> Option<(usize, Epoch)> {
        match told {
            Told::Create { e164, epoch } if epoch > self.highest => {
                self.highest = epoch;
                self.copies[e164] = Some(Copy { epochs: vec![epoch], open: false });
            }
            Told::Epoch { e164, epoch, old } => {
                let is_new = epoch > self.highest;
                self.highest = self.highest.max(epoch);
                let has_old = self.copies[e164].as_ref().is_some_and(|copy| copy.epoch() == old);
                let is_later = has_old && old < epoch;
                if !is_new && !is_later {
                    return None;
                }
                let end = self.ends.iter().find(|end| end.e164 == e164 && end.epoch == old).copied();
                match (&mut self.copies[e164], end) {
                    (Some(copy), _) => copy.epochs.push(epoch),
                    (None, Some(end)) => self.ends(End { epoch, ..end }),
                    (None, None) => self.says(Word::GivenUp, e164, epoch),
                }
            }
            Told::Release { e164, epoch, over } if self.has_had(e164, epoch) => {
                if over {
                    return self.end(e164).map(|created| (e164, created));
                }
                if let Some(copy) = self.copies[e164].take() {
                    self.says(Word::GivenUp, e164, copy.epoch());
                }
            }
            Told::Create { .. } | Told::Release { .. } | Told::List => {}
        }
        None
    }

    fn has_had(&self, e164: usize, epoch: Epoch) -> bool {
        self.copies[e164].as_ref().is_some_and(|copy| copy.epochs.contains(&epoch))
    }

    /// The present list.
    pub(crate) fn report(&self) -> Report {
        let list = |open: bool| {
            let copies = self.copies.iter().enumerate();
            let own = copies.filter_map(|(e164, copy)| Some((e164, copy.as_ref()?)));
            own.filter(|(_, copy)| copy.open == open).map(|(e164, copy)| (e164, copy.epoch())).collect()
        };
        let ended = self.ends.iter().map(|end| (end.e164, end.epoch)).collect();
        Report { highest: self.highest, ended, starting: list(false), open: list(true) }
    }

    /// Another server is the master: what was under way to the last one is lost.
    pub(crate) fn loses_its_session(&mut self) {
        (self.has_session, self.late) = (false, None);
        self.words.clear();
    }
}
