//! The conferences of a unit, and what follows from each message of the realm: the unit's side of the protocol. No
//! clock, no I/O.

use std::collections::BTreeMap;

use super::name;
use allot_client::streams::Entry;

/// The parameters of a conference that its media needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConferenceParams {
    /// Planned end, in milliseconds since 1970; empty where there is none.
    pub(crate) end: String,
    /// Capacity of the unit that the conference takes.
    pub(crate) size: String,
    /// Priority.
    pub(crate) priority: String,
    /// The manager's request, as it was given to `CONF.CREATE`.
    pub(crate) request: String,
    /// Whether another unit had the conference before.
    pub(crate) recovering: bool,
}

/// What may change while a conference runs, as it was last told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConferenceUpdate {
    /// Planned end, in milliseconds since 1970; empty where there is none.
    pub(crate) end: String,
    /// Capacity of the unit that the conference takes.
    pub(crate) size: String,
    /// Whether the planned end is near.
    pub(crate) end_is_near: bool,
}

/// A message of the realm, as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// Run this conference.
    Create {
        /// E.164 number, as the text of its bytes (see `name`); so everywhere in the unit.
        e164: String,
        /// The assignment.
        epoch: u64,
        /// Parameters of the conference.
        params: ConferenceParams,
    },
    /// Stop running the conference, if this unit has it at this epoch.
    Release {
        /// E.164 number.
        e164: String,
        /// The assignment.
        epoch: u64,
        /// Whether the conference itself ends, and does not continue on another unit.
        over: bool,
    },
    /// The conference has a new epoch.
    Epoch {
        /// E.164 number.
        e164: String,
        /// The new epoch.
        epoch: u64,
        /// The epoch that the conference has here, as far as the realm knows.
        old: u64,
    },
    /// The end or the size of the conference has changed, or its end is near.
    Update {
        /// E.164 number.
        e164: String,
        /// The assignment.
        epoch: u64,
        /// Number of the message: later changes have greater numbers.
        number: u64,
        /// What is so from now on.
        update: ConferenceUpdate,
    },
    /// Report the list of conferences.
    List,
    /// Send all details again.
    Details,
    /// A message that this version does not know; ignored.
    Unknown,
}

impl Message {
    /// Decodes an entry of the unit's stream.
    pub(crate) fn read(entry: &Entry) -> Self {
        let (e164, epoch) = (name::text(entry.bytes("e164")), entry.number("epoch"));
        match entry.text("event").as_str() {
            "CREATE" => {
                let params = ConferenceParams {
                    end: entry.text("end"),
                    size: entry.text("size"),
                    priority: entry.text("priority"),
                    request: entry.text("request"),
                    recovering: entry.text("recovering") == "1",
                };
                Self::Create { e164, epoch, params }
            }
            "RELEASE" => Self::Release { e164, epoch, over: entry.text("over") == "1" },
            "EPOCH" => Self::Epoch { e164, epoch, old: entry.number("old") },
            "UPDATE" => {
                let end_is_near = entry.text("near") == "1";
                let update =
                    ConferenceUpdate { end: entry.text("end"), size: entry.text("size"), end_is_near };
                Self::Update { e164, epoch, number: entry.number("number"), update }
            }
            "REPORT" if entry.text("what") == "DETAILS" => Self::Details,
            // Messages of any kind were lost; the realm repeats all of them in response to the list.
            "REPORT" | "RESYNC" => Self::List,
            _ => Self::Unknown,
        }
    }
}

/// What the unit does in response to a message, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Stop the media of a conference.
    Stop {
        /// E.164 number.
        e164: String,
    },
    /// Start the media of a conference, and answer `CONF.ACK`; or answer `CONF.NACK`, and forget the conference.
    Start {
        /// E.164 number.
        e164: String,
        /// The assignment.
        epoch: u64,
        /// Parameters of the conference.
        params: ConferenceParams,
    },
    /// Answer `CONF.ENDED` once the media has ended: with `RELEASED`, or as after an end by people if the conference is
    /// over.
    ReplyReleased {
        /// Its number.
        e164: String,
        /// All epochs that the copy had, the present one first.
        epochs: Vec<u64>,
        /// Whether the conference is over.
        over: bool,
    },
    /// Answer `CONF.ENDED`: the realm gave a new epoch to a copy that the unit no longer has. With `RELEASED` unless
    /// people ended the copy of the old epoch.
    ReplyUnknownEpoch {
        /// Its number.
        e164: String,
        /// The assignment.
        epoch: u64,
        /// The epoch of the copy, as far as the realm knows.
        old: u64,
    },
    /// Tell the media of a conference what has changed.
    Update {
        /// E.164 number.
        e164: String,
        /// What is so from now on.
        update: ConferenceUpdate,
    },
    /// Send all details of a conference again.
    SendDetails {
        /// E.164 number.
        e164: String,
    },
    /// Send all details of all conferences again.
    SendAllDetails,
    /// Report the list of conferences.
    ReportList,
}

/// A copy of a conference, with the epochs of its assignments.
#[derive(Debug, Clone)]
struct LocalCopy {
    epoch: u64,
    /// Epochs that the copy had before `EPOCH` messages.
    earlier: Vec<u64>,
    /// Whether its media was ready: people could join.
    open: bool,
    /// The number of the last `UPDATE`, or the epoch of the copy's `CREATE`.
    last_update: u64,
    /// What the program was told.
    params: ConferenceParams,
}

impl LocalCopy {
    /// Whether this is the epoch of the copy, or was before.
    fn has_had(&self, epoch: u64) -> bool {
        self.epoch == epoch || self.earlier.contains(&epoch)
    }

    /// All epochs that the copy had, the present one first.
    fn epochs(&self) -> Vec<u64> {
        [self.epoch].into_iter().chain(self.earlier.iter().rev().copied()).collect()
    }
}

/// The conferences of a unit.
#[derive(Debug, Clone, Default)]
pub(crate) struct LocalConferences {
    copies: BTreeMap<String, LocalCopy>,
    highest: u64,
}

impl LocalConferences {
    /// The highest epoch of all `CREATE` and `EPOCH` messages, and number of all `UPDATE` messages, that were handled.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// All open conferences with their epochs.
    pub(crate) fn open(&self) -> Vec<(String, u64)> {
        self.list(true)
    }

    /// All conferences whose media is not ready yet, with their epochs.
    pub(crate) fn starting(&self) -> Vec<(String, u64)> {
        self.list(false)
    }

    fn list(&self, open: bool) -> Vec<(String, u64)> {
        let copies = self.copies.iter().filter(|(_, copy)| copy.open == open);
        copies.map(|(e164, copy)| (e164.clone(), copy.epoch)).collect()
    }

    /// What the programs of all open conferences were told. A realm that lost its data makes new records of it.
    pub(crate) fn params(&self) -> impl Iterator<Item = (&str, &ConferenceParams)> {
        let open = self.copies.iter().filter(|(_, copy)| copy.open);
        open.map(|(e164, copy)| (e164.as_str(), &copy.params))
    }

    /// The media of a conference is ready.
    pub(crate) fn opened(&mut self, e164: &str) {
        if let Some(copy) = self.copies.get_mut(e164) {
            copy.open = true;
        }
    }

    /// Number of conferences.
    pub(crate) fn len(&self) -> usize {
        self.copies.len()
    }

    /// The epoch of a conference, if this unit has it.
    pub(crate) fn epoch(&self, e164: &str) -> Option<u64> {
        self.copies.get(e164).map(|copy| copy.epoch)
    }

    /// The epoch of a conference, if this unit has it open.
    pub(crate) fn open_epoch(&self, e164: &str) -> Option<u64> {
        self.copies.get(e164).filter(|copy| copy.open).map(|copy| copy.epoch)
    }

    /// Whether a `RELEASE` of this epoch ends the copy. The epoch may be an earlier one: the realm may have sent the
    /// message in response to a report that was made before an `EPOCH` message was read.
    fn is_released_by(&self, e164: &str, epoch: u64) -> bool {
        self.copies.get(e164).is_some_and(|copy| copy.has_had(epoch))
    }

    /// Whether one of these messages releases a conference that this unit has, or gets by an earlier one of them.
    pub(crate) fn any_release_applies(&self, messages: &[Message]) -> bool {
        if !messages.iter().any(|message| matches!(message, Message::Release { .. })) {
            return false;
        }
        let mut ahead = self.clone();
        messages.iter().any(|message| {
            let applies =
                matches!(message, Message::Release { e164, epoch, .. } if ahead.is_released_by(e164, *epoch));
            ahead.handle(message.clone());
            applies
        })
    }

    /// Applies a message; returns what the unit must do in response.
    pub(crate) fn handle(&mut self, message: Message) -> Vec<Action> {
        match message {
            Message::Create { e164, epoch, params } => self.create(e164, epoch, params),
            Message::Release { e164, epoch, over } if self.is_released_by(&e164, epoch) => {
                let epochs = self.remove(&e164).unwrap_or_else(|| vec![epoch]);
                vec![Action::Stop { e164: e164.clone() }, Action::ReplyReleased { e164, epochs, over }]
            }
            Message::Epoch { e164, epoch, old } => self.change_epoch(e164, epoch, old),
            Message::Update { e164, epoch, number, update } => self.update(e164, epoch, number, update),
            Message::List => vec![Action::ReportList],
            Message::Details => vec![Action::SendAllDetails],
            Message::Release { .. } | Message::Unknown => Vec::new(),
        }
    }

    fn create(&mut self, e164: String, epoch: u64, params: ConferenceParams) -> Vec<Action> {
        if !self.is_new_epoch(epoch) {
            return Vec::new();
        }
        let copy =
            LocalCopy { epoch, earlier: Vec::new(), open: false, last_update: epoch, params: params.clone() };
        let older = self.copies.insert(e164.clone(), copy);
        let mut actions = Vec::new();
        if older.is_some() {
            actions.push(Action::Stop { e164: e164.clone() });
        }
        actions.push(Action::Start { e164, epoch, params });
        actions
    }

    fn change_epoch(&mut self, e164: String, epoch: u64, old: u64) -> Vec<Action> {
        // The message may be repeated after other conferences got later epochs. A message whose old epoch is the current
        // one was not handled yet: the conference would have the new epoch.
        let names_our_epoch = old < epoch && self.epoch(&e164) == Some(old);
        if !self.is_new_epoch(epoch) && !names_our_epoch {
            return Vec::new();
        }
        match self.copies.get_mut(&e164) {
            Some(copy) => {
                copy.earlier.push(copy.epoch);
                copy.epoch = epoch;
                vec![Action::SendDetails { e164 }]
            }
            None => vec![Action::ReplyUnknownEpoch { e164, epoch, old }],
        }
    }

    /// The stream is read again in each session, and a report has the realm repeat the last message: earlier ones are
    /// ignored.
    fn update(&mut self, e164: String, epoch: u64, number: u64, update: ConferenceUpdate) -> Vec<Action> {
        self.highest = self.highest.max(number);
        let copy = self.copies.get_mut(&e164);
        let Some(copy) = copy.filter(|copy| copy.has_had(epoch) && copy.last_update < number) else {
            return Vec::new();
        };
        copy.last_update = number;
        (copy.params.end, copy.params.size) = (update.end.clone(), update.size.clone());
        vec![Action::Update { e164, update }]
    }

    /// Whether no message of this epoch, or a later one, was handled before. Records the epoch as handled.
    fn is_new_epoch(&mut self, epoch: u64) -> bool {
        let is_new = epoch > self.highest;
        self.highest = self.highest.max(epoch);
        is_new
    }

    /// Removes a conference whose media could not start or has ended; returns all epochs that the copy had, the present
    /// one first, if this unit had it.
    pub(crate) fn remove(&mut self, e164: &str) -> Option<Vec<u64>> {
        self.copies.remove(e164).map(|copy| copy.epochs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(e164: &str, epoch: u64) -> Message {
        Message::Create { e164: e164.into(), epoch, params: ConferenceParams::default() }
    }

    fn release(e164: &str, epoch: u64) -> Message {
        Message::Release { e164: e164.into(), epoch, over: false }
    }

    fn renumber(e164: &str, old: u64, epoch: u64) -> Message {
        Message::Epoch { e164: e164.into(), epoch, old }
    }

    fn start(e164: &str, epoch: u64) -> Action {
        Action::Start { e164: e164.into(), epoch, params: ConferenceParams::default() }
    }

    fn stop(e164: &str) -> Action {
        Action::Stop { e164: e164.into() }
    }

    fn released(e164: &str, epoch: u64) -> Action {
        Action::ReplyReleased { e164: e164.into(), epochs: vec![epoch], over: false }
    }

    fn unknown(e164: &str, old: u64, epoch: u64) -> Action {
        Action::ReplyUnknownEpoch { e164: e164.into(), epoch, old }
    }

    #[test]
    fn create_is_handled_once_and_not_after_a_later_epoch() {
        let mut conferences = LocalConferences::default();
        assert_eq!(conferences.handle(create("1", 5)), [start("1", 5)]);
        assert_eq!(conferences.handle(create("1", 5)), []);
        assert_eq!(conferences.handle(create("2", 4)), []);
        assert_eq!((conferences.starting(), conferences.highest()), (vec![("1".into(), 5)], 5));
    }

    #[test]
    fn conference_is_open_when_its_media_is_ready() {
        let mut conferences = LocalConferences::default();
        conferences.handle(create("1", 5));
        conferences.handle(create("2", 6));
        conferences.opened("1");
        conferences.opened("unknown");
        assert_eq!(
            (conferences.open(), conferences.starting()),
            (vec![("1".into(), 5)], vec![("2".into(), 6)])
        );
        // A new copy starts from the beginning.
        conferences.handle(create("1", 7));
        assert_eq!(conferences.open(), []);
    }

    #[test]
    fn newer_assignment_replaces_an_older_one() {
        let mut conferences = LocalConferences::default();
        conferences.handle(create("1", 5));
        assert_eq!(conferences.handle(create("1", 6)), [stop("1"), start("1", 6)]);
        assert!(!conferences.any_release_applies(&[release("1", 5)]));
        assert_eq!(conferences.handle(release("1", 5)), []);
        assert!(conferences.any_release_applies(&[release("1", 6)]));
        assert_eq!(conferences.handle(release("1", 6)), [stop("1"), released("1", 6)]);
        assert_eq!(conferences.len(), 0);
        assert_eq!(conferences.handle(release("1", 6)), []);
    }

    #[test]
    fn new_epoch_sends_all_details_or_reports_an_unknown_conference() {
        let mut conferences = LocalConferences::default();
        conferences.handle(create("1", 5));
        assert_eq!(conferences.handle(renumber("1", 5, 7)), [Action::SendDetails { e164: "1".into() }]);
        assert_eq!(conferences.handle(renumber("1", 5, 7)), []);
        assert_eq!(conferences.handle(renumber("2", 6, 8)), [unknown("2", 6, 8)]);
        assert_eq!((conferences.epoch("1"), conferences.highest()), (Some(7), 8));
        // A create message from before the adoption is too late.
        assert_eq!(conferences.handle(create("3", 6)), []);
    }

    #[test]
    fn repeated_epoch_message_is_applied_after_later_epochs() {
        let mut conferences = LocalConferences::default();
        conferences.handle(create("1", 5));
        conferences.handle(create("9", 11));
        assert_eq!(conferences.handle(renumber("1", 4, 10)), [], "names another epoch than ours");
        assert_eq!(conferences.handle(renumber("2", 3, 10)), []);
        assert_eq!(conferences.handle(renumber("1", 5, 10)), [Action::SendDetails { e164: "1".into() }]);
        assert_eq!(conferences.handle(renumber("1", 5, 10)), []);
        assert_eq!(conferences.handle(renumber("1", 10, 9)), [], "epochs grow");
        assert_eq!((conferences.epoch("1"), conferences.highest()), (Some(10), 11));
    }

    #[test]
    fn release_may_follow_a_new_epoch_in_the_same_batch() {
        let mut conferences = LocalConferences::default();
        conferences.handle(create("1", 5));
        assert!(conferences.any_release_applies(&[renumber("1", 5, 7), release("1", 7)]));
        assert!(conferences.any_release_applies(&[create("2", 8), release("2", 8)]));
        assert!(conferences.any_release_applies(&[renumber("1", 5, 7), release("1", 5)]));
        assert!(!conferences.any_release_applies(&[release("1", 7), renumber("1", 5, 7)]));
        assert_eq!((conferences.starting(), conferences.highest()), (vec![("1".into(), 5)], 5));
    }

    #[test]
    fn release_of_an_earlier_epoch_ends_the_copy() {
        let mut conferences = LocalConferences::default();
        conferences.handle(create("1", 5));
        conferences.handle(renumber("1", 5, 7));
        assert_eq!(conferences.handle(release("1", 6)), []);
        let reply = Action::ReplyReleased { e164: "1".into(), epochs: vec![7, 5], over: false };
        assert_eq!(conferences.handle(release("1", 5)), [stop("1"), reply]);
        // A new copy has none of the epochs of an earlier one.
        conferences.handle(create("1", 8));
        assert_eq!(conferences.handle(release("1", 7)), []);
        conferences.handle(renumber("1", 8, 9));
        assert_eq!((conferences.remove("1"), conferences.remove("1")), (Some(vec![9, 8]), None));
    }

    fn update(e164: &str, epoch: u64, number: u64, end: &str) -> Message {
        let update = ConferenceUpdate { end: end.into(), size: "2".into(), end_is_near: end == "9" };
        Message::Update { e164: e164.into(), epoch, number, update }
    }

    #[test]
    fn update_is_applied_once_and_an_earlier_one_never_after_a_later_one() {
        let mut conferences = LocalConferences::default();
        conferences.handle(create("1", 5));
        let changes = |conferences: &mut LocalConferences, message: Message| {
            let mut actions = conferences.handle(message).into_iter();
            actions.next().map(|action| match action {
                Action::Update { update, .. } => update.end,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(changes(&mut conferences, update("1", 5, 7, "70")), Some("70".into()));
        assert_eq!(changes(&mut conferences, update("1", 5, 8, "80")), Some("80".into()));
        // A new session reads all again.
        for message in [create("1", 5), update("1", 5, 7, "70"), update("1", 5, 8, "80")] {
            assert_eq!(changes(&mut conferences, message), None);
        }
        assert_eq!(conferences.highest(), 8);
        // One that was sent before the copy got its epoch; and one of another copy.
        conferences.handle(renumber("1", 5, 10));
        assert_eq!(changes(&mut conferences, update("1", 5, 9, "90")), Some("90".into()));
        assert_eq!(changes(&mut conferences, update("1", 6, 11, "110")), None);
        assert_eq!(changes(&mut conferences, update("2", 5, 12, "120")), None);
        // CREATE tells a new copy all that was changed before.
        conferences.handle(create("1", 20));
        assert_eq!(changes(&mut conferences, update("1", 20, 12, "120")), None);
        assert_eq!(changes(&mut conferences, update("1", 20, 21, "210")), Some("210".into()));
    }

    #[test]
    fn stream_entries_are_decoded_as_messages() {
        let entry = |text: &str| {
            let words: Vec<&str> = text.split(' ').collect();
            let fields = words.chunks(2).map(|pair| (pair[0].into(), pair[1].into())).collect();
            Message::read(&Entry { id: "1-0".into(), fields })
        };
        assert_eq!(entry("event RELEASE e164 1 cmu a epoch 5"), release("1", 5));
        assert_eq!(entry("event EPOCH e164 1 cmu a epoch 5 old 4"), renumber("1", 4, 5));
        assert_eq!(
            entry("event UPDATE e164 1 cmu a epoch 5 number 6 end 9 size 2 near 1"),
            update("1", 5, 6, "9")
        );
        assert_eq!(entry("event REPORT e164  cmu a epoch 0 what DETAILS"), Message::Details);
        assert_eq!(entry("event REPORT e164  cmu a epoch 0 what LIST"), Message::List);
        assert_eq!(entry("event RESYNC e164  cmu a epoch 0"), Message::List);
        assert_eq!(entry("event SING e164 1"), Message::Unknown);
        let fields = [("event", &b"RELEASE"[..]), ("e164", b"7\xff"), ("epoch", b"5")];
        let fields = fields.map(|(field, value)| (field.into(), value.into())).to_vec();
        assert_eq!(Message::read(&Entry { id: "1-0".into(), fields }), release("7\\xff", 5));
        let Message::Create { params, .. } = entry(
            "event CREATE e164 1 cmu a epoch 5 end 9 size 2 priority 3 request r recovering 1 moving 0",
        ) else {
            panic!("not a create message")
        };
        assert_eq!((params.end.as_str(), params.size.as_str(), params.recovering), ("9", "2", true));
    }
}
