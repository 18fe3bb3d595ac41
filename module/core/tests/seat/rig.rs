//! A show under test beside everything that must agree with it.

use super::naive::{Block, Naive, Seat, State};
use allot_core::seat::blocking::BlockRecord;
use allot_core::seat::list::Filter;
use allot_core::seat::plan::{Limits, PickOrphans, Plan, PlanArea, PlanRow, PlanSeat, PlanSeats, Rule};
use allot_core::seat::request::{AddBest, Orphans, Request, Wait};
use allot_core::seat::state::SeatState;
use allot_core::seat::{Event, Reply, Show, decide, decide_due};
use allot_core::shared::codec::Writer;
use allot_core::shared::machine::{FollowUp, Machine, MachineEvent};
use allot_core::shared::refusal::Code;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// Numbers from a seed, which a failing case prints.
pub(super) struct Random(TestRng);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n.max(1) as u64) as usize
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

pub(super) const TIERS: [&str; 3] = ["gold", "silver", "bronze"];
pub(super) const BLOCKS: [&str; 2] = ["press", "sponsors"];
pub(super) const FLAGS: [&str; 2] = ["wheelchair", "view"];

/// A point of small numbers, in halves.
pub(super) fn point(random: &mut Random, largest: usize) -> [f32; 2] {
    [0, 1].map(|_| random.below(2 * largest) as f32 / 2.0)
}

/// Says where a row is: positions are one apart, and a row is two deep for each rank.
pub(super) fn put_somewhere(random: &mut Random, row: &mut PlanRow) {
    row.at = Some([random.below(8) as f32, 2.0 * row.rank as f32]);
    row.step = Some([1.0, 0.0]);
}

pub(super) fn random_plan(random: &mut Random) -> Plan {
    // Long runs in rows of one tier.
    let solid = random.chance(8);
    let mixed = !solid && random.chance(40);
    let flagged = !solid && random.chance(50);
    let long = solid || random.chance(15);
    let named = random.chance(30);
    let focus = random.chance(30).then(|| point(random, 16));
    let areas = (0..=random.below(4)).map(|area| {
        let rows = (0..=random.below(5)).map(|row| {
            let len = if long { 60 + random.below(90) } else { 1 + random.below(14) };
            let tier = random.pick(&TIERS);
            let mut seats: Vec<Option<PlanSeat>> = (0..len)
                .map(|seat| {
                    let tier = if mixed && random.chance(30) { random.pick(&TIERS) } else { tier };
                    let id = (named && random.chance(60)).then(|| format!("own{area}.{row}.{seat}"));
                    let flags =
                        FLAGS.iter().filter(|_| flagged && random.chance(10)).map(ToString::to_string);
                    let seat = PlanSeat {
                        label: seat.to_string(),
                        id,
                        tier: Some(tier.to_string()),
                        flags: flags.collect(),
                    };
                    (solid || !random.chance(10)).then_some(seat)
                })
                .collect();
            seats[0].get_or_insert(PlanSeat {
                label: "0".into(),
                id: None,
                tier: Some(tier.into()),
                flags: vec![],
            });
            PlanRow {
                label: row.to_string(),
                rank: random.below(3) as i32,
                tier: None,
                at: None,
                step: None,
                points: None,
                seats: PlanSeats::List(seats),
            }
        });
        let mut rows: Vec<PlanRow> = rows.collect();
        let mut rule = random.pick(&[Rule::Ltr, Rule::Rtl, Rule::Center]);
        let own_focus = random.chance(20).then(|| point(random, 16));
        if random.chance(30) {
            rows.iter_mut().for_each(|row| put_somewhere(random, row));
            if focus.or(own_focus).is_some() && random.chance(60) {
                rule = Rule::Focus;
            }
        }
        let (id, priority) = (format!("a{area}"), random.below(2) as i32);
        if random.chance(20) {
            let (standing, tier) = (Some(1 + random.below(12) as u32), Some(random.pick(&TIERS).to_owned()));
            return PlanArea {
                id,
                name: None,
                priority,
                rule,
                standing,
                tier,
                focus: own_focus,
                rows: vec![],
            };
        }
        PlanArea { id, name: None, priority, rule, standing: None, tier: None, focus: own_focus, rows }
    });
    let areas = areas.collect();
    let limits = Limits {
        seats_per_user: random.pick(&[0, 0, 8]),
        holds_per_user: random.pick(&[0, 1, 2]),
        max_hold_ms: random.pick(&[0, 500]),
        waits_per_user: random.pick(&[0, 1, 3]),
        pick_orphans: random.pick(&[PickOrphans::Allow, PickOrphans::Forbid, PickOrphans::Avoid]),
    };
    Plan { areas, limits, events: random.pick(&[0, 0, 5]), focus }
}

/// The show under test, and all that must agree with it.
pub(super) struct Rig {
    pub(super) show: Show,
    pub(super) replica: Show,
    pub(super) naive: Naive,
    /// The plan of the show; every row lists its seats.
    pub(super) plan: Plan,
    pub(super) now: i64,
    /// The show before the deadlines of the last step were applied.
    pub(super) overdue: Show,
    /// After how many pieces of the waiting list's examination each step stops, if it is not over.
    pub(super) slice: usize,
}

impl Rig {
    pub(super) fn apply(&mut self, event: &Event) {
        if matches!(event, Event::Altered { .. } | Event::Arranged { .. }) {
            self.naive.free_queued();
        }
        self.show.apply(self.now, event);
        let mut bytes = Writer::default();
        event.encode(&mut bytes);
        for event in Event::decode_all(&bytes.bytes).unwrap() {
            self.replica.admits(&event).unwrap();
            self.replica.apply(self.now, &event);
        }
    }

    pub(super) fn advance(&mut self, by: i64) {
        self.now += by;
        self.overdue = self.show.clone();
        for event in decide_due(&self.show, self.now, usize::MAX) {
            self.apply(&event);
        }
        self.naive.expire(self.now);
        self.serve();
    }

    /// Examines the waiting list, at least as long as free seats may meet a wish.
    pub(super) fn serve(&mut self) {
        for piece in 0.. {
            if piece >= self.slice && !self.show.waiters().is_closed() {
                return;
            }
            match self.show.follow_up(self.now) {
                FollowUp::Continue => {}
                FollowUp::Done => break,
                FollowUp::Event(event) => {
                    match &event {
                        Event::Offered { held, .. } => {
                            let served = self.naive.serve_one(self.now);
                            assert_eq!(served.as_deref(), Some(&held.token[..]), "another is served first");
                        }
                        Event::Passed => {
                            assert_eq!(self.naive.serve_one(self.now), None, "a waiter is passed over");
                            self.naive.free_queued();
                        }
                        event => panic!("{event:?} follows"),
                    }
                    self.apply(&event);
                }
            }
        }
        assert_eq!(self.naive.serve_one(self.now), None, "a waiter is passed over");
    }

    pub(super) fn ask(&mut self, request: &Request<'_>) -> Result<Reply, Code> {
        let before = self.show.encode();
        // With waiters it depends on the order of expiry who gets which seat.
        if self.overdue.waiters().is_empty() {
            self.ask_before_all_deadlines(request);
        }
        match decide(&self.show, self.now, request) {
            Ok(decision) => {
                for event in &decision.events {
                    self.apply(event);
                }
                self.serve();
                Ok(decision.reply)
            }
            Err(refusal) => {
                assert_eq!(self.show.encode(), before, "a refusal changed something");
                Err(refusal.code)
            }
        }
    }

    /// While deadlines that have passed are not carried out, the answer to a request is the final one, or it is to be sent
    /// again. A hold may get other seats, as many.
    fn ask_before_all_deadlines(&self, request: &Request<'_>) {
        let mut show = self.overdue.clone();
        let carry_out = |show: &mut Show, limit: usize| {
            for event in decide_due(show, self.now, limit) {
                show.admits(&event).unwrap();
                show.apply(self.now, &event);
            }
        };
        let answer = |show: &Show| match show.decide_or_try_again(self.now, request) {
            Ok(decision) => Ok(match decision.reply {
                Reply::Hold(record) => Reply::Integer(record.seats.len() as i64),
                // A user who cannot be served yet waits.
                Reply::Wait(_) => Reply::Ok,
                reply => reply,
            }),
            Err(refusal) => Err(refusal.code),
        };
        carry_out(&mut show, self.now as usize % 3);
        assert_eq!(show.check(), Ok(()));
        let late = answer(&self.show);
        let mut early = answer(&show);
        if early == Err(Code::TryAgain) {
            assert!(show.count_overdue(self.now, 1) > 0, "{request:?} is to be sent again in vain");
            while show.count_overdue(self.now, 1) > 0 {
                carry_out(&mut show, 2);
            }
            early = answer(&show);
        }
        let may_differ = match request {
            // A seat beside the group that is free a moment later does not count as stranded.
            Request::Hold(hold)
            | Request::AddBest(AddBest { hold, .. })
            | Request::Wait(Wait { hold, .. }) => hold.wish.orphans == Orphans::Forbid,
            // Seats that return to the block a moment later are not counted.
            Request::Pick(_) | Request::EndBlock(_) => true,
            _ => false,
        };
        assert!(early == late || may_differ && early.is_ok(), "{request:?}: {early:?}, {late:?}");
    }

    /// Everything that can be seen is the same everywhere, and no state contradicts itself.
    pub(super) fn check(&self) {
        let venue = self.show.venue();
        for place in self.naive.places() {
            let seat = self.naive.seat(place);
            let number = venue.find(seat.id.as_bytes()).unwrap();
            let record = self.show.seat_record(number, self.now);
            let (standing, token, order) = match &seat.state {
                State::Free => (SeatState::Free, None, None),
                State::Queued => (SeatState::Queued, None, None),
                State::Blocked => (SeatState::Blocked, None, None),
                State::Held(token) => (SeatState::Held, Some(token), None),
                State::Sold(token, order) => (SeatState::Sold, Some(token), order.as_ref()),
            };
            assert_eq!(record.state, standing, "{}", seat.id);
            assert_eq!(record.token.as_deref(), token.map(|token| &token[..]));
            assert_eq!(record.order.as_deref(), order.map(|order| &order[..]));
            let block = self.naive.blocks.iter().find(|block| Some(block.number) == seat.block);
            let name = block.map(|block| block.name.as_bytes()).filter(|name| !name.is_empty());
            assert_eq!(record.block.as_deref(), name, "{}", seat.id);
        }
        let records = self.show.block_records(self.now);
        assert_eq!(records.len(), self.naive.blocks.len());
        for BlockRecord { block, left } in records {
            let name = block.name.as_deref().unwrap_or_default();
            let is_same = |other: &&Block| {
                other.name.as_bytes() == name && (!name.is_empty() || other.until == block.until)
            };
            let naive = self.naive.blocks.iter().find(is_same).unwrap();
            let of_block = |seat: &&Seat| seat.block == Some(naive.number);
            let seats: Vec<&Seat> =
                self.naive.places().map(|place| self.naive.seat(place)).filter(of_block).collect();
            let blocked = seats.iter().filter(|seat| seat.state == State::Blocked).count();
            let expected = (naive.until, naive.per_user, seats.len(), blocked);
            let most = block.per_user.map(|most| most as usize);
            assert_eq!((block.until, most, block.seats.len(), left), expected, "{naive:?}");
        }
        let rows = |plan: &Plan| {
            let rows = plan.areas.iter().map(|area| area.rows.iter().map(|row| row.label.clone()).collect());
            rows.collect::<Vec<Vec<String>>>()
        };
        assert_eq!(rows(&self.show.plan()), rows(&self.plan), "the order of the plan");
        assert!(!self.naive.could_serve(), "seats that are free to all meet a wish that waits");
        let waiting: Vec<&[u8]> = self.naive.waiters.iter().map(|waiter| &waiter.token[..]).collect();
        let (waiters, _) = self.show.list_waiters(Filter::default(), 0, u32::MAX, self.now);
        let listed = waiters.iter().map(|&id| self.show.waiters().get(id));
        let mut listed: Vec<_> = listed.map(|waiter| (waiter.place.1, &waiter.token[..])).collect();
        listed.sort_unstable();
        assert_eq!(listed.into_iter().map(|(_, token)| token).collect::<Vec<_>>(), waiting);
        for &id in &waiters {
            let record = self.show.wait_record(id);
            let place =
                self.naive.waiters.iter().position(|waiter| waiter.token[..] == *record.token).unwrap();
            let (waiter, position) = (&self.naive.waiters[place], self.naive.position(place));
            let expected = (false, position, waiter.since, waiter.until);
            assert_eq!((record.offered, record.position, record.since, record.until), expected, "{waiter:?}");
            assert_eq!(self.show.waiting(&waiter.token, self.now), Some(record));
        }
        for token in self.naive.ended.keys().filter(|token| !waiting.contains(&&token[..])) {
            let held = self.naive.claims.get(token).filter(|claim| !claim.sold);
            let record = self.show.waiting(token, self.now);
            let seen = record.map(|record| (record.offered, record.position, record.until));
            assert_eq!(seen, held.map(|claim| (true, 0, claim.until)));
        }
        for token in self.naive.claims.keys() {
            let seats = &self.show.claims().get(self.show.claims().find(token).unwrap()).seats;
            let orphans = self.show.orphans(seats).into_iter().map(|seat| venue.id(seat));
            assert_eq!(orphans.collect::<Vec<_>>(), self.naive.orphans(token));
        }
        let bytes = self.show.encode();
        assert_eq!(self.replica.encode(), bytes, "the replica differs");
        let restored = Show::decode(&bytes).unwrap();
        assert_eq!(restored.encode(), bytes, "the snapshot differs");
        for show in [&self.show, &self.replica, &restored] {
            assert_eq!(show.check(), Ok(()));
        }
    }
}
