//! Overdue holds and blocks that a request depends on. After a pause or a restart a million holds may be overdue, and
//! many blocks may share one end. The timer ends them in slices; a request ends only those on which its own decision
//! depends.

use super::decide;
use super::orphans::forbids_orphans;
use super::rules::{check_user_limits, live_hold, resolve};
use super::search::Search;
use super::wait::as_hold;
use super::wish::Wish;
use crate::seat::bits::{self, Bits};
use crate::seat::blocks::MAX_BLOCKS;
use crate::seat::claims::Stage;
use crate::seat::event::{Event, Events};
use crate::seat::outcome::Reply;
use crate::seat::plan::PlanPart;
use crate::seat::request::{Adjacent, Hold, Orphans, Request};
use crate::seat::state::{Owner, Show, Strip};
use crate::seat::venue::Seat;
use crate::shared::Millis;
use crate::shared::refusal::Code;
use std::borrow::Cow;

/// The most holds that expire for one reason at once: about 10 ms of work with an event stream.
const SLICE: usize = 500;

/// The events of overdue holds and blocks on which the decision of `request` depends. Empty when the decision is final: apply
/// the events and call again until then. At most one call scans the candidate buckets for each slice of holds.
///
/// A request for best seats is decided on the seats that are free by now. Only when it finds none are the seats of
/// overdue blocks and holds looked for, so that no request is refused because of one that has ended.
pub fn decide_overdue(show: &Show, now: Millis, request: &Request<'_>) -> Events {
    if show.next_due().is_none_or(|due| due > now) {
        return Events::new();
    }
    // First the blocks, so that seats of overdue holds do not return to a block that has ended.
    let blocks = show.overdue_among(now, blocks_of(show, request));
    if !blocks.is_empty() {
        return blocks.into();
    }
    if matches!(request, Request::BlockIn { .. }) && show.blocks.len() >= MAX_BLOCKS {
        let one = show.overdue_blocks(now, 1);
        if !one.is_empty() {
            return one.into();
        }
    }
    let holds = match request {
        Request::Extend { token, .. }
        | Request::Confirm { token, .. }
        | Request::Exchange { token, .. }
        | Request::Release { token, .. } => show.claims.find(token).into_iter().collect(),
        Request::Pick(pick) => {
            let mut holds = owners(show, &pick.seats);
            if forbids_orphans(show, pick) {
                holds.extend(neighbours(show, &pick.seats));
            }
            holds.extend(show.claims.find(pick.token.token));
            holds.extend(of_user(show, now, pick.user, pick.seats.len() as u32, None));
            holds
        }
        Request::Block(seats)
        | Request::BlockIn { seats, .. }
        | Request::Unblock(seats)
        | Request::Refund { seats, .. } => owners(show, seats),
        Request::EndBlock(name) => of_block(show, now, show.blocks.called(name)),
        Request::Hold(hold) => return for_hold(show, now, hold, request),
        Request::Wait(wait) => {
            let hold = as_hold(wait);
            return for_hold(show, now, &hold, &Request::Hold(hold.clone()));
        }
        Request::Unwait(_) => Vec::new(),
        Request::Alter(part) => of_part(show, part),
    };
    expiries(show, now, holds)
}

/// The ends of those of these holds that are overdue.
fn expiries(show: &Show, now: Millis, mut holds: Vec<u32>) -> Events {
    holds.retain(|&id| is_overdue(show, id, now));
    holds.sort_unstable();
    holds.dedup();
    holds.into_iter().map(|id| Event::Expired { token: show.claims.get(id).token.clone() }).collect()
}

/// The blocks on which a decision depends, even if it finds seats: the block that the request names, and those of the
/// seats that it names or gives up for others. Only blocks that exist; a block may occur more than once.
fn blocks_of(show: &Show, request: &Request<'_>) -> Vec<u32> {
    let named = |name: Option<&[u8]>| name.and_then(|name| show.blocks.called(name));
    let of_seats = |ids: &[&[u8]]| -> Vec<u32> {
        let seats = ids.iter().filter_map(|id| show.venue.find(id));
        seats.filter_map(|seat| show.blocks.of(seat)).collect()
    };
    let for_hold = |hold: &Hold<'_>| -> Vec<u32> {
        let replaced = hold.replace.and_then(|replace| show.claims.find(replace.token));
        let seats = replaced.map_or(&[][..], |id| &show.claims.get(id).seats[..]);
        let replaced = seats.iter().filter_map(|&seat| show.blocks.of(seat));
        replaced.chain(named(hold.from)).collect()
    };
    match request {
        Request::Hold(hold) => for_hold(hold),
        Request::Wait(wait) => for_hold(&wait.hold),
        Request::Pick(pick) => {
            let mut blocks = of_seats(&pick.seats);
            if forbids_orphans(show, pick) {
                blocks.extend(near(show, &pick.seats).filter_map(|seat| show.blocks.of(seat)));
            }
            blocks.extend(named(pick.from));
            blocks
        }
        Request::Block(seats) | Request::Unblock(seats) => of_seats(seats),
        Request::BlockIn { name, seats, .. } => {
            let mut blocks = of_seats(seats);
            blocks.extend(named(*name));
            blocks
        }
        Request::EndBlock(name) => named(Some(*name)).into_iter().collect(),
        Request::Extend { .. }
        | Request::Confirm { .. }
        | Request::Exchange { .. }
        | Request::Release { .. }
        | Request::Refund { .. }
        | Request::Unwait(_)
        | Request::Alter(_) => Vec::new(),
    }
}

fn is_overdue(show: &Show, id: u32, now: Millis) -> bool {
    matches!(show.claims.get(id).stage, Stage::Held { until } if until <= now)
}

/// The claims that own these seats. Unknown seats are left to the decision.
fn owners(show: &Show, ids: &[&[u8]]) -> Vec<u32> {
    let seats = ids.iter().filter_map(|id| show.venue.find(id));
    seats.filter_map(|seat| claim_of(show, seat)).collect()
}

/// The claims that own a seat near these.
fn neighbours(show: &Show, ids: &[&[u8]]) -> Vec<u32> {
    near(show, ids).filter_map(|seat| claim_of(show, seat)).collect()
}

/// The seats at most two places beside these: they decide whether a seat stays alone.
fn near(show: &Show, ids: &[&[u8]]) -> impl Iterator<Item = Seat> {
    let seats = ids.iter().filter_map(|id| show.venue.find(id));
    seats.flat_map(|seat| seat.saturating_sub(2)..=seat.saturating_add(2))
}

fn claim_of(show: &Show, seat: Seat) -> Option<u32> {
    match show.owner(seat) {
        Owner::Claim(id) => Some(id),
        Owner::Free | Owner::Blocked => None,
    }
}

/// The claims that own seats which may be removed, or change their tiers or flags. Names, priorities, order rules and ranks
/// depend on no hold.
fn of_part(show: &Show, part: &PlanPart) -> Vec<u32> {
    let areas =
        part.areas.iter().filter_map(|area| Some((area, show.venue.area_called(area.id.as_bytes())?)));
    let rows = areas.flat_map(|(change, area)| {
        let retiered = change.rows.iter().filter(|row| row.tier.is_some() || row.seats.is_some());
        let labels = retiered.map(|row| &row.label).chain(change.put_rows.iter().map(|row| &row.label));
        let labels = labels.chain(&change.remove_rows);
        let named = labels.flat_map(move |label| show.venue.rows_labelled(area, label.as_bytes()));
        let places = change.tier.is_some() || change.standing.is_some();
        named.chain(places.then(|| show.venue.area(area).rows.clone()).into_iter().flatten())
    });
    let removed = part.remove_seats.iter().filter_map(|id| show.venue.find(id.as_bytes()));
    let seats = rows.flat_map(|row| show.venue.seats_of(row)).chain(removed);
    seats.filter_map(|seat| claim_of(show, seat)).collect()
}

/// Overdue holds of seats of a block, to which the seats return. O(seats of the block).
fn of_block(show: &Show, now: Millis, block: Option<u32>) -> Vec<u32> {
    let seats = block.and_then(|id| show.blocks.get(id)).map_or(&[][..], |block| &block.seats);
    let holds = seats.iter().filter_map(|&seat| claim_of(show, seat));
    holds.filter(|&id| is_overdue(show, id, now)).take(SLICE).collect()
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

fn for_hold(show: &Show, now: Millis, hold: &Hold<'_>, request: &Request<'_>) -> Events {
    let named = [Some(hold.token.token), hold.replace.map(|replace| replace.token)];
    let mut holds: Vec<u32> =
        named.into_iter().flatten().filter_map(|token| show.claims.find(token)).collect();
    holds.retain(|&id| is_overdue(show, id, now));
    if !holds.is_empty() {
        return expiries(show, now, holds);
    }
    let replaced = hold.replace.and_then(|replace| live_hold(show, replace.token, Some(hold.user)).ok());
    let of_user = of_user(show, now, hold.user, hold.count.clamp(0, u32::MAX.into()) as u32, replaced);
    if !of_user.is_empty() {
        return expiries(show, now, of_user);
    }
    let together = match decide(show, now, request) {
        Ok(decision) if decision.reply == Reply::None => false,
        Err(refusal) if refusal.code == Code::NoAdjacent => true,
        Ok(_) | Err(_) => return Events::new(),
    };
    let Ok(wish) = resolve(show, &hold.wanted()) else { return Events::new() };
    if wish.from.is_some() {
        return expiries(show, now, of_block(show, now, wish.from));
    }
    let blocks = show.overdue_blocks(now, SLICE);
    if !blocks.is_empty() {
        return blocks.into();
    }
    let scan = Scan { show, now, wish: &wish, replaced, again: hold.replace.is_some_and(|one| !one.other) };
    let holds = match (together, hold.adjacent) {
        (false, _) => scan.enough_seats(&scan.candidates()),
        (true, Adjacent::Area) if wish.needs.is_empty() => scan.row_with_run_in_best_level(),
        (true, _) => scan.row_with_run(&scan.candidates()),
    };
    expiries(show, now, holds)
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
    fn enough_seats(&self, buckets: &[u32]) -> Vec<u32> {
        let (mut holds, mut gained) = (Vec::new(), 0);
        for expected in self.gaining_strips(buckets, 1) {
            gained += expected.gained;
            holds.extend(expected.holds);
            if gained >= self.wish.count {
                break;
            }
        }
        holds
    }

    /// The overdue holds of a strip that has a suitable run without them, in the best level in which an area has enough
    /// seats without any overdue hold: no other level can serve a request for the best area.
    fn row_with_run_in_best_level(&self) -> Vec<u32> {
        let (show, candidates) = (self.show, self.candidates());
        let mut levels = candidates.chunk_by(|&a, &b| show.priority(a) == show.priority(b));
        let area_of = |bucket: u32| show.bucket_at(bucket).area;
        let best = levels.find(|level| {
            level.chunk_by(|&a, &b| area_of(a) == area_of(b)).any(|area| self.has_enough_seats(area))
        });
        best.map_or_else(Vec::new, |level| self.row_with_run(level))
    }

    /// Whether these buckets have as many seats without overdue holds as the request asks for.
    fn has_enough_seats(&self, buckets: &[u32]) -> bool {
        let mut missing = self.wish.count;
        self.strips(buckets).any(|strip| {
            missing = missing.saturating_sub(bits::count(&self.expected(strip).takeable) as usize);
            missing == 0
        })
    }

    /// The overdue holds of the first strip of these buckets that has a suitable run without them.
    fn row_with_run(&self, buckets: &[u32]) -> Vec<u32> {
        let (standing, seated): (Vec<u32>, Vec<u32>) =
            buckets.iter().partition(|&&bucket| self.show.is_standing(bucket));
        // No place has a flag that a party needs.
        let standing = standing.into_iter().filter(|_| self.wish.needs.is_empty());
        if let Some(bucket) = standing.into_iter().find(|&bucket| self.may_have_enough_seats(bucket)) {
            return self.enough_seats(&[bucket]);
        }
        // For a party with needs a run is not looked at closely: a hold that is overdue may always end.
        let clean = self.wish.orphans == Orphans::Forbid && self.wish.needs.is_empty();
        let n = self.wish.count;
        let has_run = |expected: &Expected| {
            let windows = bits::windows(&expected.takeable, n);
            let windows = if clean { bits::stranding_nobody(&windows, &expected.free, n) } else { windows };
            bits::count(&windows) > 0
        };
        let found = self.gaining_strips(&seated, n).find(has_run);
        found.map_or_else(Vec::new, |expected| expected.holds)
    }

    /// Whether a bucket that has fewer seats than the request asks for has enough without its overdue holds.
    fn may_have_enough_seats(&self, bucket: u32) -> bool {
        let held = self.show.bucket_at(bucket).counts.held > 0;
        held && self.has_enough_seats(&[bucket])
    }

    fn candidates(&self) -> Cow<'_, [u32]> {
        Search::candidates(self.show, self.wish)
    }

    /// All strips of these buckets.
    fn strips(&self, buckets: &[u32]) -> impl Iterator<Item = Strip> {
        buckets.iter().flat_map(|&bucket| self.show.bucket_at(bucket).strips.iter().copied())
    }

    /// The strips of these buckets that have an overdue hold whose seats the request may take, and that are long enough
    /// for a run of `n`.
    fn gaining_strips(&self, buckets: &[u32], n: usize) -> impl Iterator<Item = Expected> {
        let held = buckets.iter().filter(|&&bucket| self.show.bucket_at(bucket).counts.held > 0);
        let strips = held.flat_map(|bucket| self.strips(std::slice::from_ref(bucket)));
        let long = move |strip: Strip| {
            let seats = self.show.seats_of(strip);
            n == 1 || seats.kept.runs(&seats.words).any(|len| len >= n)
        };
        let strips = strips.filter(move |&strip| long(strip)).map(|strip| self.expected(strip));
        strips.filter(|expected| expected.gained > 0)
    }

    fn expected(&self, strip: Strip) -> Expected {
        let (show, base) = (self.show, self.show.venue.base(strip.row));
        let (seats, len) = (show.seats_of(strip), usize::from(show.venue.layout(strip.row).len));
        let mut free = Bits::from_slice(show.free_seats(strip));
        let mut overdue: Bits = free.iter().map(|_| 0).collect();
        let mut replaced = overdue.clone();
        let mut holds = Vec::new();
        let taken: Bits = seats.words.iter().zip(&free).map(|(seats, free)| seats & !free).collect();
        for position in seats.kept.ones(&taken) {
            let seat = base + position as Seat;
            // A seat of a block returns to it.
            let Some(id) = claim_of(show, seat).filter(|_| show.blocks.of(seat).is_none()) else { continue };
            if self.replaced == Some(id) {
                seats.kept.put(&mut replaced, position, true);
            } else if is_overdue(show, id, self.now) {
                seats.kept.put(&mut overdue, position, true);
                holds.push(id);
            }
        }
        for seats in [&mut free, &mut overdue, &mut replaced] {
            show.hide_flagged(strip, self.wish.kind().allowed, seats);
        }
        let gained = bits::count(&overdue) as usize;
        let all =
            |one: &Bits, two: &Bits| -> Bits { one.iter().zip(two).map(|(one, two)| one | two).collect() };
        let without_replaced = all(&free, &overdue);
        let with_replaced = seats.kept.dense(&all(&without_replaced, &replaced), len);
        let takeable =
            if self.again { with_replaced.clone() } else { seats.kept.dense(&without_replaced, len) };
        Expected { takeable, free: with_replaced, gained, holds }
    }
}
