//! A ledger of the holder of each seat, as far as the buyers can know, to find seats with two holders.
//!
//! The ledger never raises a false alarm. A buyer is in the ledger for a seat only while the server must still
//! count the seat as theirs:
//! - entered after the reply to HOLD, so after the server granted it;
//! - taken out before RELEASE is sent, so before the server can free it;
//! - an entry counts until `lease end` = the time when HOLD was *sent* plus its TTL, less a margin. The server
//!   counted the TTL from a later time, but in whole milliseconds rounded down, and perhaps from a clock
//!   it had read a little before; the margin is far more than both. A reply that arrives after its lease
//!   end is not entered at all, as the server may have passed the seat on;
//! - when CONFIRM is answered 'sold', the entry stays for ever. The lease may have run out in the ledger
//!   (not on the server) between sending and reply; a buyer that got in meanwhile got a seat that was sold.
//!
//! So two entries at one time are two holders at one time (provided both clocks run at the same speed and
//! no buyer refunds). The converse does not hold: the ledger misses an overlap that ends before both replies have
//! arrived, and an overlap within the margin. But the ledger and the totals of the show always reveal a seat that is
//! sold twice.

use std::collections::HashMap;

use tokio::time::Instant;

/// A seat with two holders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Double {
    pub(super) seat: String,
    /// The purchase that has the seat in the ledger.
    pub(super) holder: u64,
    /// The purchase that was given the seat as well.
    pub(super) other: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    holder: u64,
    /// `None` for a seat that was sold.
    lease_end: Option<Instant>,
}

impl Entry {
    fn counts_at(&self, now: Instant) -> bool {
        self.lease_end.is_none_or(|end| now < end)
    }
}

/// The ledger.
#[derive(Debug, Default)]
pub(super) struct Ledger(HashMap<String, Entry>);

impl Ledger {
    /// Enters a purchase that was granted these seats; returns the seats that another purchase has.
    pub(super) fn enter(
        &mut self,
        holder: u64,
        seats: &[String],
        lease_end: Instant,
        now: Instant,
    ) -> Vec<Double> {
        let mut doubles = Vec::new();
        let entry = Entry { holder, lease_end: Some(lease_end) };
        for seat in seats.iter().filter(|_| now < lease_end) {
            match self.0.get(seat) {
                Some(before) if before.counts_at(now) => doubles.push(double(seat, *before, entry)),
                _ => drop(self.0.insert(seat.clone(), entry)),
            }
        }
        doubles
    }

    /// Removes a purchase, before its seats are released.
    pub(super) fn leave(&mut self, holder: u64, seats: &[String]) {
        for seat in seats {
            if self.0.get(seat).is_some_and(|entry| entry.holder == holder) {
                self.0.remove(seat);
            }
        }
    }

    /// Marks the seats of a purchase as sold; returns the seats that another purchase has.
    pub(super) fn sell(&mut self, holder: u64, seats: &[String]) -> Vec<Double> {
        let entry = Entry { holder, lease_end: None };
        let sell = |seat: &String| {
            // A buyer found here came in later, whether or not their lease has run out since.
            let before = self.0.insert(seat.clone(), entry)?;
            (before.holder != holder).then(|| double(seat, before, entry))
        };
        seats.iter().filter_map(sell).collect()
    }
}

fn double(seat: &str, before: Entry, entry: Entry) -> Double {
    Double { seat: seat.to_owned(), holder: before.holder, other: entry.holder }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn seats(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn a_seat_granted_twice_within_a_lease_is_an_alarm() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        assert!(ledger.enter(1, &seats(&["a", "b"]), now + SECOND, now).is_empty());
        assert_eq!(
            ledger.enter(2, &seats(&["b", "c"]), now + SECOND, now),
            [Double { seat: "b".into(), holder: 1, other: 2 }]
        );
    }

    #[test]
    fn a_seat_given_back_or_lapsed_may_go_to_another() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        ledger.enter(1, &seats(&["a", "b"]), now + SECOND, now);
        ledger.leave(1, &seats(&["a"]));
        assert!(ledger.enter(2, &seats(&["a"]), now + SECOND, now).is_empty());
        assert!(ledger.enter(3, &seats(&["b"]), now + 2 * SECOND, now + SECOND).is_empty());
    }

    #[test]
    fn leaving_buyer_takes_nobody_else_out() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        ledger.enter(1, &seats(&["a"]), now + SECOND, now);
        ledger.enter(2, &seats(&["a"]), now + 3 * SECOND, now + SECOND);
        ledger.leave(1, &seats(&["a"]));
        assert_eq!(ledger.enter(3, &seats(&["a"]), now + 3 * SECOND, now + 2 * SECOND).len(), 1);
    }

    #[test]
    fn a_reply_that_comes_after_its_lease_says_nothing() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        ledger.enter(1, &seats(&["a"]), now + 3 * SECOND, now);
        assert!(ledger.enter(2, &seats(&["a"]), now + SECOND, now + SECOND).is_empty());
    }

    #[test]
    fn a_sold_seat_is_never_free_again() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        ledger.enter(1, &seats(&["a"]), now + SECOND, now);
        assert!(ledger.sell(1, &seats(&["a"])).is_empty());
        assert_eq!(ledger.enter(2, &seats(&["a"]), now + 100 * SECOND, now + 99 * SECOND).len(), 1);
        assert_eq!(ledger.sell(3, &seats(&["a"])).len(), 1);
    }

    #[test]
    fn second_buyer_during_a_sale_is_an_alarm() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        ledger.enter(1, &seats(&["a"]), now + SECOND, now);
        ledger.enter(2, &seats(&["a"]), now + 3 * SECOND, now + SECOND);
        assert_eq!(ledger.sell(1, &seats(&["a"])), [Double { seat: "a".into(), holder: 2, other: 1 }]);
    }
}
