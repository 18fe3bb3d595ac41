//! Overdue holds that a request depends on. After a pause or a restart a million holds may be overdue. The timer
//! expires them in slices; a request expires only the holds on which its own decision depends.

use super::search::{Search, Wish};
use super::{check_user_limits, decide, live_hold, resolve};
use crate::invariant;
use crate::seat::bits::{self, Bits};
use crate::seat::claims::Stage;
use crate::seat::event::{Event, Events};
use crate::seat::outcome::Reply;
use crate::seat::request::{Adjacent, Hold, Orphans, Request};
use crate::seat::state::{Owner, Show, Strip};
use crate::shared::Millis;
use crate::shared::refusal::Code;

/// The most holds that expire for one reason at once: about 10 ms of work with an event stream.
const SLICE: usize = 500;

/// The events of overdue holds on which the decision of `request` depends. Empty when the decision is final: apply
/// the events and call again until then. At most one call scans the candidate buckets for each slice of holds.
///
/// A request for best seats is decided on the seats that are free by now. Only when it finds none are the seats of
/// overdue holds looked for, so that no request is refused because of a hold that has ended.
pub fn decide_overdue(show: &Show, now: Millis, request: &Request<'_>) -> Events {
    if show.next_due().is_none_or(|due| due > now) {
        return Events::new();
    }
    let mut holds = match request {
        Request::Extend { token, .. } | Request::Confirm { token, .. } | Request::Release { token, .. } => {
            show.claims.find(token).into_iter().collect()
        }
        Request::Pick(pick) => {
            let mut holds = owners(show, &pick.seats);
            holds.extend(show.claims.find(pick.token.token));
            holds.extend(of_user(show, now, pick.user, pick.seats.len() as u32, None));
            holds
        }
        Request::Block(seats) | Request::Unblock(seats) | Request::Refund { seats, .. } => {
            owners(show, seats)
        }
        Request::Hold(hold) => for_hold(show, now, hold, request),
        // Names, priorities and order rules do not depend on any hold.
        Request::Alter(part) if part.areas.iter().all(|area| area.rows.is_empty()) => Vec::new(),
        // New tiers may depend on every hold.
        Request::Alter(_) => show.claims.due(now, SLICE),
    };
    holds.retain(|&id| is_overdue(show, id, now));
    holds.sort_unstable();
    holds.dedup();
    holds.into_iter().map(|id| Event::Expired { token: show.claims.get(id).token.clone() }).collect()
}

fn is_overdue(show: &Show, id: u32, now: Millis) -> bool {
    matches!(show.claims.get(id).stage, Stage::Held { until } if until <= now)
}

/// The claims that own these seats. Unknown seats are left to the decision.
fn owners(show: &Show, ids: &[&[u8]]) -> Vec<u32> {
    let seats = ids.iter().filter_map(|id| show.venue.find(id));
    seats
        .filter_map(|seat| match show.owner(seat) {
            Owner::Claim(id) => Some(id),
            Owner::Free | Owner::Blocked => None,
        })
        .collect()
}

/// Overdue holds of a user who would exceed a limit.
fn of_user(show: &Show, now: Millis, user: &[u8], count: u32, replaced: Option<u32>) -> Vec<u32> {
    let Some(info) = show.claims.user_called(user) else { return Vec::new() };
    if check_user_limits(show, user, count, replaced).is_ok() {
        return Vec::new();
    }
    let holds = show.claims.holds_of(info).iter().copied();
    holds.filter(|&id| is_overdue(show, id, now)).take(SLICE).collect()
}

fn for_hold(show: &Show, now: Millis, hold: &Hold<'_>, request: &Request<'_>) -> Vec<u32> {
    let named = [Some(hold.token.token), hold.replace.map(|replace| replace.token)];
    let mut holds: Vec<u32> =
        named.into_iter().flatten().filter_map(|token| show.claims.find(token)).collect();
    holds.retain(|&id| is_overdue(show, id, now));
    if !holds.is_empty() {
        return holds;
    }
    let replaced = hold.replace.and_then(|replace| live_hold(show, replace.token, Some(hold.user)).ok());
    let of_user = of_user(show, now, hold.user, hold.count.clamp(0, u32::MAX.into()) as u32, replaced);
    if !of_user.is_empty() {
        return of_user;
    }
    let together = match decide(show, now, request) {
        Ok(decision) if decision.reply == Reply::None => false,
        Err(refusal) if refusal.code == Code::NoAdjacent => true,
        Ok(_) | Err(_) => return holds,
    };
    if together && hold.adjacent == Adjacent::Area {
        // The best area depends on the free seats of all candidates.
        return show.claims.due(now, SLICE);
    }
    let Ok(wish) = resolve(show, hold) else { return holds };
    let scan = Scan { show, now, wish: &wish, replaced, again: hold.replace.is_some_and(|one| !one.other) };
    if together { scan.row_with_run() } else { scan.enough_seats() }
}

/// Looks through the candidate buckets of a request for best seats. O(held and sold seats of the buckets).
struct Scan<'a> {
    show: &'a Show,
    now: Millis,
    wish: &'a Wish,
    /// The hold that the request replaces, and whether its seats may be taken again.
    replaced: Option<u32>,
    again: bool,
}

/// The seats of a strip, as if its overdue holds had expired.
struct Expected {
    takeable: Bits,
    free: Bits,
    /// Seats of overdue holds that the request may take.
    gained: usize,
    holds: Vec<u32>,
}

impl Scan<'_> {
    /// Overdue holds with at least as many seats as the request asks for, or with all seats there are.
    fn enough_seats(&self) -> Vec<u32> {
        let (mut holds, mut gained) = (Vec::new(), 0);
        for expected in self.strips(1) {
            gained += expected.gained;
            holds.extend(expected.holds);
            if gained >= self.wish.count {
                break;
            }
        }
        holds
    }

    /// The overdue holds of the first strip that has a suitable run without them.
    fn row_with_run(&self) -> Vec<u32> {
        let (n, clean) = (self.wish.count, self.wish.orphans == Orphans::Forbid);
        let has_run = |expected: &Expected| {
            let windows = bits::windows(&expected.takeable, n);
            let windows = if clean { bits::stranding_nobody(&windows, &expected.free, n) } else { windows };
            bits::count(&windows) > 0
        };
        self.strips(n).find(has_run).map_or_else(Vec::new, |expected| expected.holds)
    }

    /// The strips of the candidate buckets that have an overdue hold whose seats the request may take, and that are
    /// long enough for a run of `n`.
    fn strips(&self, n: usize) -> impl Iterator<Item = Expected> {
        let buckets: Vec<u32> = Search::candidates(self.show, self.wish).into_owned();
        let buckets = buckets.into_iter().map(|bucket| self.show.bucket_at(bucket));
        let strips =
            buckets.filter(|bucket| bucket.counts.held > 0).flat_map(|bucket| bucket.strips.iter().copied());
        let long = move |strip: Strip| n == 1 || bits::count(&bits::windows(self.seats(strip), n)) > 0;
        let strips = strips.filter(move |&strip| long(strip)).map(|strip| self.expected(strip));
        strips.filter(|expected| expected.gained > 0)
    }

    /// All seats of a strip, free or not.
    fn seats(&self, strip: Strip) -> &[u64] {
        let seats = self.show.venue.layout(strip.row).tiers.get(usize::from(strip.slot));
        invariant!(seats.is_some(), "a strip has seats of its tier");
        seats.map_or(&[][..], |(_, seats)| seats)
    }

    fn expected(&self, strip: Strip) -> Expected {
        let (show, base) = (self.show, self.show.venue.base(strip.row));
        let mut free = Bits::from_slice(show.free_seats(strip));
        let mut overdue: Bits = free.iter().map(|_| 0).collect();
        let mut kept = overdue.clone();
        let mut holds = Vec::new();
        let taken = self.seats(strip).iter().zip(&free).map(|(seats, free)| seats & !free);
        let taken: Bits = taken.collect();
        for position in bits::ones(&taken) {
            let Owner::Claim(id) = show.owner(base + position as u32) else { continue };
            if self.replaced == Some(id) {
                bits::put(&mut kept, position, true);
            } else if is_overdue(show, id, self.now) {
                bits::put(&mut overdue, position, true);
                holds.push(id);
            }
        }
        for seats in [&mut free, &mut overdue, &mut kept] {
            show.hide_flagged(strip.row, self.wish.flags, seats);
        }
        let gained = bits::count(&overdue) as usize;
        let all =
            |one: &Bits, two: &Bits| -> Bits { one.iter().zip(two).map(|(one, two)| one | two).collect() };
        let without_kept = all(&free, &overdue);
        let with_kept = all(&without_kept, &kept);
        let takeable = if self.again { with_kept.clone() } else { without_kept };
        Expected { takeable, free: with_kept, gained, holds }
    }
}
