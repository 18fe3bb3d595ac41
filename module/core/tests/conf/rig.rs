//! A realm, its clock, a replica that gets every event as bytes, and what was told to whom.

use allot_core::conf::conference::{Conference, State, Wishes};
use allot_core::conf::event::Created;
use allot_core::conf::request::{
    AssignmentNotice, ClientRequest, Create, End, Report, Request, SchedulerRequest, Set, UnitRequest,
    WishesRequest,
};
use allot_core::conf::state::Settings;
use allot_core::conf::unit::Name;
use allot_core::conf::{ConferenceEvent, Event, Realm, Reply, decide, decide_due};
use allot_core::shared::codec::Writer;
use allot_core::shared::machine::MachineEvent;
use allot_core::shared::refusal::Refusal;

pub(crate) struct Rig {
    pub(crate) realm: Realm,
    pub(crate) replica: Realm,
    pub(crate) now: i64,
    /// What was told since it was last looked at: `stream EVENT e164 epoch ...`.
    pub(crate) told: Vec<String>,
    /// What was applied since it was last looked at, and when; and the unit that has created a conference by that.
    pub(crate) applied: Vec<(i64, Event, Option<Name>)>,
}

pub(crate) const MINUTE: i64 = 60_000;

impl Rig {
    /// A realm at time 1000 with these units, of capacity 10 each and with long leases.
    pub(crate) fn new(units: &[&str]) -> Self {
        Self::with(Settings::default(), units)
    }

    pub(crate) fn with(settings: Settings, units: &[&str]) -> Self {
        let realm = Realm::open(settings, 1000);
        let mut rig =
            Self { replica: realm.clone(), realm, now: 1000, told: Vec::new(), applied: Vec::new() };
        for cmu in units {
            rig.join(cmu, 10);
        }
        rig.told.clear();
        rig
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        self.realm.admits(event).unwrap_or_else(|damaged| panic!("{event:?}: {damaged}"));
        self.applied.push((self.now, event.clone(), self.creator(event)));
        self.realm.apply(self.now, event);
        let mut bytes = Writer::default();
        event.encode(&mut bytes);
        for event in Event::decode_all(&bytes.bytes).unwrap() {
            self.replica.admits(&event).unwrap();
            self.replica.apply(self.now, &event);
        }
    }

    /// The unit that creates a conference, if this event says so.
    fn creator(&self, event: &Event) -> Option<Name> {
        let Event::Conference { e164, event } = event else { return None };
        let one = self.realm.conference_called(e164)?;
        match event {
            ConferenceEvent::Acked if one.state == State::Creating => one.last_unit().cloned(),
            ConferenceEvent::Moved => one.moving.as_ref().map(|moving| moving.cmu.clone()),
            _ => None,
        }
    }

    /// Sends what the outbox holds.
    pub(crate) fn flush(&mut self) {
        let mut sent = Vec::new();
        for (stream, lane) in self.realm.outbox().lanes() {
            sent.push((stream.to_vec(), lane.len() as u32));
            let stream = String::from_utf8_lossy(stream).into_owned();
            for message in lane {
                let values = message.iter().map(|(_, value)| String::from_utf8_lossy(value).into_owned());
                let values: Vec<String> = values.collect();
                self.told.push(format!("{stream} {}", values.join(" ")).trim_end().to_owned());
            }
        }
        if !sent.is_empty() {
            self.apply(&Event::Flushed { sent, last_id: (self.now as u64, 0) });
        }
    }

    /// What is due by now, all of it.
    pub(crate) fn due(&mut self) {
        loop {
            let events = decide_due(&self.realm, self.now, 3);
            if events.is_empty() {
                break;
            }
            events.iter().for_each(|event| self.apply(event));
        }
        self.flush();
    }

    pub(crate) fn pass(&mut self, by: i64) {
        self.now += by;
        self.due();
    }

    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Result<Reply, Refusal> {
        self.due();
        let decision = decide(&self.realm, self.now, request)?;
        decision.events.iter().for_each(|event| self.apply(event));
        self.flush();
        Ok(decision.reply)
    }

    /// The code of the refusal, or the reply.
    pub(crate) fn code(&mut self, request: &Request<'_>) -> String {
        match self.ask(request) {
            Ok(reply) => format!("{reply:?}"),
            Err(refusal) => refusal.code.word().into(),
        }
    }

    /// Replica and snapshot are equal to the realm, and nothing in any of them contradicts anything else.
    pub(crate) fn check(&self) {
        let bytes = self.realm.encode();
        assert!(self.replica.encode() == bytes, "the replica differs");
        let again = Realm::decode(&bytes).unwrap();
        assert!(again.encode() == bytes, "the snapshot differs");
        for realm in [&self.realm, &self.replica, &again] {
            assert_eq!(realm.check(), Ok(()));
        }
        assert_eq!(again.next_due(), self.realm.next_due());
    }

    // What is asked often.

    pub(crate) fn join(&mut self, cmu: &str, capacity: i64) {
        self.ask(&Request::Unit(UnitRequest::Join {
            cmu: cmu.as_bytes(),
            capacity,
            zone: None,
            tags: &[],
            lease: 3_600_000_000,
            machine: None,
        }))
        .unwrap();
    }

    pub(crate) fn down(&mut self, cmu: &str) {
        self.ask(&Request::Scheduler { term: None, request: SchedulerRequest::Down { cmu: cmu.as_bytes() } })
            .unwrap();
    }

    pub(crate) fn beat(&mut self, cmu: &str) -> String {
        self.code(&Request::Unit(UnitRequest::Beat { cmu: cmu.as_bytes(), load: None }))
    }

    pub(crate) fn beat_with(&mut self, cmu: &str, load: i64) -> String {
        self.code(&Request::Unit(UnitRequest::Beat { cmu: cmu.as_bytes(), load: Some(load) }))
    }

    pub(crate) fn create(&mut self, e164: &str) -> u64 {
        self.ask(&Request::Client(ClientRequest::Create(wish(e164)))).unwrap();
        self.epoch(e164)
    }

    pub(crate) fn ack(&mut self, e164: &str, cmu: &str, epoch: u64) -> String {
        self.code(&Request::Unit(UnitRequest::Ack(word(e164, cmu, epoch))))
    }

    /// The same where the creation may be refused.
    pub(crate) fn code_of_create(&mut self, e164: &str) -> String {
        self.code(&Request::Client(ClientRequest::Create(wish(e164))))
    }

    /// Begins a move to the best unit, if there is one.
    pub(crate) fn code_of_move(&mut self, e164: &str) -> String {
        let request = SchedulerRequest::Move { e164: e164.as_bytes(), to: None };
        self.code(&Request::Scheduler { term: None, request })
    }

    /// Creates a conference and has it opened.
    pub(crate) fn open(&mut self, e164: &str) -> u64 {
        let epoch = self.create(e164);
        let owner = self.owner(e164);
        assert_eq!(self.ack(e164, &owner, epoch), "Ok");
        epoch
    }

    pub(crate) fn nack(&mut self, e164: &str, cmu: &str, epoch: u64) -> String {
        self.code(&Request::Unit(UnitRequest::Nack(word(e164, cmu, epoch), None)))
    }

    pub(crate) fn ended(&mut self, e164: &str, cmu: &str, epoch: u64) -> String {
        self.code(&Request::Unit(UnitRequest::Ended(word(e164, cmu, epoch), End::People)))
    }

    /// The program of the copy failed.
    pub(crate) fn failed(&mut self, e164: &str, cmu: &str, epoch: u64) -> String {
        self.code(&Request::Unit(UnitRequest::Failed(word(e164, cmu, epoch), None)))
    }

    /// A report of conferences that the unit is still creating.
    pub(crate) fn report_starting(&mut self, cmu: &str, highest: u64, starting: &[(&str, u64)]) -> Reply {
        let (cmu, starting) = (cmu.as_bytes(), rows(starting));
        let report = Report { cmu, highest, ended: vec![], starting, params: vec![], list: vec![] };
        self.ask(&Request::Unit(UnitRequest::Report(report))).unwrap()
    }

    /// The unit gave up its copy because it was told RELEASE.
    pub(crate) fn given_up(&mut self, e164: &str, cmu: &str, epoch: u64) -> String {
        self.code(&Request::Unit(UnitRequest::Ended(word(e164, cmu, epoch), End::Released)))
    }

    pub(crate) fn release(&mut self, e164: &str) -> String {
        self.code(&Request::Client(ClientRequest::Release { e164: e164.as_bytes() }))
    }

    pub(crate) fn report(&mut self, cmu: &str, highest: u64, list: &[(&str, u64)]) -> Reply {
        self.report_with(cmu, highest, &[], list)
    }

    /// A report that names what people ended.
    pub(crate) fn report_with(
        &mut self,
        cmu: &str,
        highest: u64,
        ended: &[(&str, u64)],
        list: &[(&str, u64)],
    ) -> Reply {
        let (ended, list) = (rows(ended), rows(list));
        let report = Report { cmu: cmu.as_bytes(), highest, ended, starting: vec![], params: vec![], list };
        self.ask(&Request::Unit(UnitRequest::Report(report))).unwrap()
    }

    pub(crate) fn recover(&mut self) -> usize {
        match self
            .ask(&Request::Scheduler { term: None, request: SchedulerRequest::Recover { count: 100 } })
            .unwrap()
        {
            Reply::Grants(grants) => grants.len(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn restart(&mut self, live: &[&str]) {
        let live = live.iter().map(|cmu| cmu.as_bytes()).collect();
        self.ask(&Request::Scheduler { term: None, request: SchedulerRequest::Restart { live } }).unwrap();
    }

    pub(crate) fn move_to(&mut self, e164: &str, to: &str) -> u64 {
        self.ask(&Request::Scheduler {
            term: None,
            request: SchedulerRequest::Move { e164: e164.as_bytes(), to: Some(to.as_bytes()) },
        })
        .unwrap();
        self.one(e164).moving.as_ref().unwrap().epoch
    }

    pub(crate) fn set(&mut self, e164: &str, cmu: &str, epoch: u64, seq: u64, fields: &[&str]) -> String {
        let fields: Vec<&[u8]> = fields.iter().map(|field| field.as_bytes()).collect();
        let (e164, cmu) = (e164.as_bytes(), cmu.as_bytes());
        self.code(&Request::Unit(UnitRequest::Set(Set { e164, cmu, epoch, seq, fields: &fields })))
    }

    pub(crate) fn one(&self, e164: &str) -> &Conference {
        self.realm.conference_called(e164.as_bytes()).unwrap_or_else(|| panic!("there is no {e164}"))
    }

    pub(crate) fn epoch(&self, e164: &str) -> u64 {
        self.one(e164).epoch
    }

    pub(crate) fn state(&self, e164: &str) -> State {
        self.one(e164).state
    }

    /// The state's word; `ending` while its end is asked for, `none` without a record.
    pub(crate) fn word(&self, e164: &str) -> &'static str {
        match self.realm.conference_called(e164.as_bytes()) {
            None => "none",
            Some(one) if one.ending.is_some() => "ending",
            Some(one) => one.state.word(),
        }
    }

    /// The owner's name, empty without one.
    pub(crate) fn owner(&self, e164: &str) -> String {
        let owner = self.one(e164).owner.and_then(|owner| self.realm.unit(owner));
        owner.map_or_else(String::new, |owner| String::from_utf8_lossy(&owner.cmu).into_owned())
    }

    /// What was told to a unit since it was last looked at.
    pub(crate) fn commands(&mut self, cmu: &str) -> Vec<String> {
        let stream = format!("cmd:{cmu} ");
        let (own, others): (Vec<String>, Vec<String>) =
            std::mem::take(&mut self.told).into_iter().partition(|line| line.starts_with(&stream));
        self.told = others;
        own.into_iter().map(|line| line[stream.len()..].to_owned()).collect()
    }

    /// The first word of each command to a unit since it was last looked at.
    pub(crate) fn verbs(&mut self, cmu: &str) -> String {
        let verbs: Vec<String> =
            self.commands(cmu).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
        verbs.join(" ")
    }
}

pub(crate) fn word<'a>(e164: &'a str, cmu: &'a str, epoch: u64) -> AssignmentNotice<'a> {
    AssignmentNotice { e164: e164.as_bytes(), cmu: cmu.as_bytes(), epoch }
}

fn rows<'a>(rows: &[(&'a str, u64)]) -> Vec<(&'a [u8], u64)> {
    rows.iter().map(|&(e164, epoch)| (e164.as_bytes(), epoch)).collect()
}

/// A creation with the defaults of `CONF.CREATE`.
/// A conference that a unit gets at that epoch.
pub(crate) fn created(e164: &str, cmu: &str, epoch: u64) -> Created {
    Created {
        e164: e164.as_bytes().into(),
        cmu: Some(Name::from(cmu.as_bytes())),
        epoch,
        start: None,
        end: None,
        size: 1,
        licences: 1,
        priority: 0,
        wishes: Wishes::default(),
        recoverable: true,
        request: None,
        called_from: None,
    }
}

pub(crate) fn wish(e164: &str) -> Create<'_> {
    Create {
        e164: e164.as_bytes(),
        start: None,
        end: None,
        size: 1,
        licences: 1,
        priority: 0,
        wishes: WishesRequest::default(),
        recoverable: true,
        waits: false,
        request: None,
        called_from: None,
    }
}

/// The wish for a zone.
pub(crate) fn zone(zone: &[u8]) -> WishesRequest<'_> {
    WishesRequest { zone: Some(Some(zone)), ..WishesRequest::default() }
}
