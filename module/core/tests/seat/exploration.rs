//! Seats that wait are explored: every order of events of a small show, to a depth. Three users want the two seats of a
//! row, and a replica begins to lag at any step and becomes the master at any later one. Nobody waits while there are
//! seats for the wish, a seat has one owner, and what was sold before a replica began to lag stays sold.
//!
//! A state is decoded before each step, so what the list has been examined for is never remembered. `waiting` tests that.

use super::explore::{Limits, World, explore};
use super::house::wish;
use allot_core::seat::request::{Hold, Request, Wait};
use allot_core::seat::{Reply, Show, decide, decide_due};
use allot_core::shared::codec::{Reader, Writer};
use allot_core::shared::machine::FollowUp;
use allot_core::shared::token::TokenChoice;
use serde_json::json;
use std::fmt::{self, Display, Formatter};

/// Who wants how many seats.
const USERS: [(&str, u32); 3] = [("ann", 1), ("bob", 2), ("cid", 1)];
const OFFER: i64 = 100;
const TTL: i64 = 1000;

#[derive(Clone, Debug)]
struct Small {
    show: Show,
    replica: Option<Show>,
    now: i64,
    /// Whose seats were sold before the replica began to lag, and not refunded since.
    sold: [bool; 3],
    takeovers: u8,
    wrong: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(usize),
    Hold(usize),
    Release(usize),
    Confirm(usize),
    Refund(usize),
    /// So many milliseconds pass.
    Pass(i64),
    Lag,
    TakeOver,
}

impl Display for Step {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let name = |user: usize| USERS[user].0;
        match *self {
            Self::Wait(user) => write!(out, "{} waits", name(user)),
            Self::Hold(user) => write!(out, "{} holds seats at once", name(user)),
            Self::Release(user) => write!(out, "{} stops waiting, or releases the seats", name(user)),
            Self::Confirm(user) => write!(out, "{} buys", name(user)),
            Self::Refund(user) => write!(out, "the order of {} is refunded", name(user)),
            Self::Pass(time) => write!(out, "{time} ms pass"),
            Self::Lag => write!(out, "the replica begins to lag"),
            Self::TakeOver => write!(out, "the replica takes over"),
        }
    }
}

/// What a user asks for, under a name of its own.
fn hold(user: usize, token: &[u8]) -> Hold<'_> {
    let (name, count) = USERS[user];
    Hold { token: TokenChoice { token, chosen: true }, ttl: TTL, ..wish(name, count) }
}

impl Small {
    fn new(takeovers: u8) -> Self {
        let rows = [json!({"label": "1", "rank": 1, "tier": "t", "seats": "1-2"})];
        let plan = json!({"areas": [{"id": "a", "rows": rows}], "limits": {"holds_per_user": 0}});
        let show = Show::open(&plan.to_string(), 0).unwrap();
        Self { show, replica: None, now: 1, sold: [false; 3], takeovers, wrong: None }
    }

    /// Serves the waiting list after a change, as a step of the module does.
    fn settle(&mut self) {
        for event in decide_due(&self.show, self.now, usize::MAX) {
            self.show.apply(self.now, &event);
        }
        loop {
            let event = match self.show.follow_up(self.now) {
                FollowUp::Event(event) => event,
                FollowUp::Continue => continue,
                FollowUp::Done => return,
            };
            if let Err(damaged) = self.show.admits(&event) {
                self.wrong.get_or_insert(format!("{event:?} is not admitted: {damaged}"));
                return;
            }
            self.show.apply(self.now, &event);
        }
    }

    /// Whether the request was not refused.
    fn ask(&mut self, request: &Request<'_>) -> bool {
        self.settle();
        let Ok(decision) = decide(&self.show, self.now, request) else { return false };
        for event in &decision.events {
            if let Err(damaged) = self.show.admits(event) {
                self.wrong.get_or_insert(format!("{event:?} is not admitted: {damaged}"));
                return true;
            }
            self.show.apply(self.now, event);
        }
        self.settle();
        true
    }

    /// Takes a step. Whether it may have changed anything.
    fn take(&mut self, step: Step) -> bool {
        let token = |user: usize| USERS[user].0.as_bytes();
        match step {
            Step::Wait(user) => {
                self.ask(&Request::Wait(Wait { hold: hold(user, token(user)), offer: OFFER, priority: 0 }))
            }
            Step::Hold(user) => self.ask(&Request::Hold(hold(user, token(user)))),
            Step::Release(user) => {
                self.ask(&Request::Release { token: token(user), seats: None, into: None })
            }
            Step::Confirm(user) => {
                let (token, order) = (token(user), Some(token(user)));
                let confirmed = self.ask(&Request::Confirm { token, user: None, order });
                // The seller waits for a replica before the sale counts.
                self.sold[user] |= confirmed && self.replica.is_none() && self.seats_of_order(user) > 0;
                confirmed
            }
            Step::Refund(user) => {
                let refunded =
                    self.ask(&Request::Refund { order: Some(token(user)), seats: None, into: None });
                self.sold[user] &= !refunded;
                refunded
            }
            Step::Pass(time) => {
                self.now += time;
                self.settle();
                true
            }
            Step::Lag => {
                self.takeovers -= 1;
                self.replica = Some(self.show.clone());
                true
            }
            Step::TakeOver => {
                self.show = self.replica.take().expect("a replica");
                self.settle();
                true
            }
        }
    }

    fn seats_of_order(&self, user: usize) -> usize {
        self.show.order_seats(USERS[user].0.as_bytes(), 100).map_or(0, |seats| seats.len())
    }
}

impl World for Small {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for user in 0..3 {
            steps.extend([Step::Wait(user), Step::Hold(user), Step::Release(user), Step::Confirm(user)]);
            steps.push(Step::Refund(user));
        }
        if self.show.next_due().is_some() {
            steps.extend([Step::Pass(OFFER), Step::Pass(TTL)]);
        }
        if self.replica.is_some() {
            steps.push(Step::TakeOver);
        } else if self.takeovers > 0 {
            steps.push(Step::Lag);
        }
        steps
    }

    fn after(&self, step: &Step) -> Option<Self> {
        let mut next = self.clone();
        next.take(*step).then_some(next)
    }

    fn fault(&self) -> Option<String> {
        if let Some(wrong) = &self.wrong {
            return Some(wrong.clone());
        }
        if let Err(contradiction) = self.show.check() {
            return Some(contradiction.to_string());
        }
        for (user, (name, count)) in USERS.into_iter().enumerate() {
            let waiting = self.show.waiting(name.as_bytes(), self.now).filter(|record| !record.offered);
            let free = decide(&self.show, self.now, &Request::Hold(hold(user, b"another")));
            if waiting.is_some() && free.is_ok_and(|decision| matches!(decision.reply, Reply::Hold(_))) {
                return Some(format!("{name} waits, and there are seats"));
            }
            // A sale that a lagging replica does not have may be lost, and a refund as well.
            if self.sold[user] && self.replica.is_none() && self.seats_of_order(user) < count as usize {
                return Some(format!("{name} has bought, and has no seats"));
            }
        }
        None
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer { bytes: std::mem::take(out) };
        writer.signed(self.now);
        self.sold.iter().for_each(|&sold| writer.unsigned(sold.into()));
        writer.unsigned(self.takeovers.into());
        writer.string(&self.show.encode());
        writer.optional(self.replica.as_ref().map(Show::encode).as_deref());
        *out = writer.bytes;
    }

    fn decode(bytes: &[u8]) -> Self {
        let mut reader = Reader::new(bytes);
        let now = reader.signed().unwrap();
        let sold = [(); 3].map(|()| reader.unsigned().unwrap() == 1);
        let takeovers = reader.unsigned().unwrap() as u8;
        let show = |bytes: &[u8]| Show::decode(bytes).expect("what was encoded is decoded");
        let own = show(reader.string().unwrap());
        let replica = (reader.byte().unwrap() == 1).then(|| show(reader.string().unwrap()));
        Self { show: own, replica, now, sold, takeovers, wrong: None }
    }
}

#[test]
fn nobody_waits_for_free_seats_after_any_loss_of_a_failover() {
    let explored = explore(Limits::to(6), vec![("a show of two free seats", Small::new(1))]);
    explored.found_nothing_in(5000);
}
