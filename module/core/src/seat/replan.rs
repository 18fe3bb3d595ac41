//! Changes of the plan while seats are held, sold and waited for: which changes are allowed, and what they mean for
//! everything that names seats or flags by their numbers.

use super::event::Arrangement;
use super::moves::Moves;
use super::owners::{FREE, Owners};
use super::plan::{self, Plan};
use super::state::{Owner, Show};
use super::venue::{Seat, Venue};
use super::waiting::Waiter;
use super::wish::LastingWish;
use crate::invariant;
use crate::shared::invariant::Expected;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;

impl Show {
    /// Checks that every held or sold seat stays, with its tier and its flags. O(seats).
    ///
    /// # Errors
    /// `BADSTATE`, naming the first seat that would not.
    pub(super) fn keeps_taken_seats(&self, venue: &Venue, moves: &Moves<'_>) -> Result<(), Refusal> {
        let old = &self.venue;
        let tiers = old.tiers().iter().map(|name| venue.tier_called(name.as_bytes()));
        let tiers: Vec<Option<u16>> = tiers.collect();
        let taken = |seat: &Seat| matches!(self.owner(*seat), Owner::Claim(_));
        for seat in old.rows().flat_map(|row| old.seats_of(row)).filter(taken) {
            let (flags, tier) = (old.flags_of(seat), old.tier_of(seat));
            let tier = tier.and_then(|tier| tiers.get(usize::from(tier)).copied().flatten());
            let what = match moves.of(seat) {
                None => "it cannot be removed",
                Some(new) if tier.is_none() || venue.tier_of(new) != tier => "its tier cannot change",
                Some(new)
                    if venue.flags_of(new) != moves.flags(flags)
                        || venue.flags_of(new).count_ones() != flags.count_ones() =>
                {
                    "its flags cannot change"
                }
                Some(_) => continue,
            };
            let (id, state) = (quoted(old.id(seat)), self.state(seat).word());
            return Err(Refusal::new(Code::BadState, format!("seat {id} is {state}; {what}")));
        }
        Ok(())
    }

    /// The waiters who need a flag that no seat has any more, with the first such flag of each. O(waiters), and O(flags)
    /// if no flag disappears.
    pub(super) fn waiters_for_lost_flags(&self, moves: &Moves<'_>) -> impl Iterator<Item = (&Waiter, &str)> {
        let known = self.venue.all_flags();
        let lost = self
            .venue
            .flag_names(known)
            .filter(|name| moves.flags(self.venue.flag_bit(name.as_bytes())) == 0);
        let lost = lost.fold(0, |union, name| union | self.venue.flag_bit(name.as_bytes()));
        let waiters = self.waiters.table.iter().filter(move |_| lost != 0);
        waiters.filter_map(move |(_, waiter)| {
            let needs = &self.waiters.queue_of(waiter).wish.needs;
            let need = needs.iter().find(|need| need.flag & lost != 0)?;
            Some((waiter, self.venue.flag_names(need.flag).next().unwrap_or_default()))
        })
    }

    /// Replaces the plan. Seats that are in both plans keep their owners and their blocks; the others are free, or were
    /// free or blocked. O(seats + waiters log waiters).
    pub(super) fn alter(&mut self, plan: &str) {
        // `decide` made this plan, or `admits` has checked it.
        let plan = plan::parse::<Plan>(plan.as_bytes());
        let Ok((plan, venue)) = plan.and_then(|plan| Venue::build(&plan).map(|venue| (plan, venue))) else {
            invariant!("a plan that is applied can be read and built");
            return;
        };
        let old = std::mem::replace(&mut self.venue, venue);
        let Some(moves) = Moves::between(&old, &self.venue) else {
            invariant!("a plan that is applied keeps all areas");
            self.venue = old;
            return;
        };
        self.limits = plan.limits;
        self.events = plan.events;
        self.owners = moved_owners(&self.owners, &old, &self.venue, &moves);
        self.claims.move_seats(|seat| moves.of(seat));
        self.blocks.move_seats(|seat| moves.of(seat));
        if !moves.keep_flags() {
            self.waiters.change_wishes(|wish| change_flags(wish, &moves));
        }
        let mut area_turns = std::mem::take(&mut self.area_turns).into_vec();
        // Areas are only added, at the end. A new area was never served.
        area_turns.resize(self.venue.areas().len(), 0);
        self.area_turns = area_turns.into();
        self.rename_tiers(&old);
        self.build_buckets();
    }

    /// Changes names, priorities and order rules. O(areas), and O(buckets) if a priority changes.
    pub(super) fn arrange(&mut self, areas: &[Arrangement]) {
        let mut reordered = false;
        for arrangement in areas {
            let Some(area) = self
                .venue
                .areas
                .get_mut(arrangement.area as usize)
                .expected("an area that changes is one of the show")
            else {
                continue;
            };
            reordered |= area.priority != arrangement.priority;
            area.name = arrangement.name.as_str().into();
            area.priority = arrangement.priority;
            area.rule = arrangement.rule;
        }
        if reordered {
            self.order_buckets();
        }
    }
}

fn moved_owners(owners: &Owners, old: &Venue, new: &Venue, moves: &Moves<'_>) -> Owners {
    let mut moved = Owners::new(new.position_count() as usize);
    for seat in 0..old.position_count() {
        let Some(owner) = owners.get(seat).filter(|&owner| owner != FREE) else { continue };
        if let Some(place) = moves.of(seat) {
            let set = moved.set(place, owner);
            invariant!(set, "a seat of the new venue has an owner");
        }
    }
    moved
}

fn change_flags(wish: &mut LastingWish, moves: &Moves<'_>) {
    wish.flags = moves.flags(wish.flags);
    wish.preferred = moves.flags(wish.preferred);
    for need in &mut wish.needs {
        need.flag = moves.flags(need.flag);
    }
    wish.needs.sort_unstable_by_key(|need| need.flag);
}
