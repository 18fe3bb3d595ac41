//! Checks a whole show: claims, owners, buckets, bits and indexes against each other.

use super::claims::{Claims, MAX_ADDED, Sale};
use super::index::Runs;
use super::kind::Kind;
use super::state::{Bucket, Owner, Show};
use super::venue::{Area, Row, Seat, Venue};
use crate::ensure;
use crate::shared::invariant::{Checked, Contradiction};
use hashbrown::HashMap;

impl Show {
    /// Checks the whole show: the venue, the claims and the outbox each against itself, owners against claims, and
    /// buckets, bits and indexes against owners. O(size of the show), in time and memory.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        self.venue.check()?;
        self.claims.check()?;
        self.waiters.check()?;
        self.ended_waits.check()?;
        self.outbox.check()?;
        self.check_owners()?;
        self.check_blocks()?;
        self.check_buckets()?;
        self.check_turns()
    }

    /// Checks that each claim owns exactly its seats.
    fn check_owners(&self) -> Checked {
        let positions = self.venue.position_count();
        ensure!(
            self.owners.len() == positions as usize,
            "{} of {positions} positions have an owner",
            self.owners.len()
        );
        let mut owned = 0;
        for seat in 0..positions {
            let owner = self.owner(seat);
            ensure!(owner == Owner::Free || self.venue.is_seat(seat), "break {seat} belongs to {owner:?}");
            owned += usize::from(matches!(owner, Owner::Claim(_)));
        }
        let is_free = |seat: &Seat| self.venue.is_seat(*seat) && self.owner(*seat) == Owner::Queued;
        let stray = self.waiters.queued().iter().find(|&seat| !is_free(seat));
        ensure!(stray.is_none(), "seat {stray:?} is queued, and not free");
        let mut claimed = 0;
        for (id, claim) in self.claims.table.iter() {
            claimed += claim.seats.len();
            for &seat in &claim.seats {
                ensure!(self.owner(seat) == Owner::Claim(id), "seat {seat} of claim {id} is not its own");
            }
        }
        ensure!(owned == claimed, "{owned} seats belong to claims that have {claimed}");
        Ok(())
    }

    /// Checks buckets, bits and orders against the venue and the owners.
    fn check_buckets(&self) -> Checked {
        let mut sound = self.clone();
        sound.build_buckets();
        ensure!(self.words == sound.words, "the bits of free seats are not what the owners say");
        ensure!(self.row_strips == sound.row_strips, "the index of a row's first strip is wrong");
        ensure!(self.row_strips_at == sound.row_strips_at, "the strips of a row are wrong");
        ensure!(self.area_buckets == sound.area_buckets, "the list of an area's buckets is wrong");
        ensure!(self.all_buckets == sound.all_buckets, "the buckets are not in their order");
        ensure!(self.tier_buckets == sound.tier_buckets, "the buckets of a tier are not in their order");
        ensure!(self.buckets.len() == sound.buckets.len(), "there are {} buckets", self.buckets.len());
        for (number, (bucket, sound)) in self.buckets.iter().zip(&sound.buckets).enumerate() {
            let place = |bucket: &Bucket| (bucket.area, bucket.tier);
            ensure!(place(bucket) == place(sound), "bucket {number} is of another area or tier");
            ensure!(bucket.strips == sound.strips, "bucket {number} has other strips");
            ensure!(bucket.flags == sound.flags, "bucket {number} has other flags");
            let (counts, expected) = (bucket.counts, sound.counts);
            ensure!(counts == expected, "bucket {number} counts {counts:?}, and its seats are {expected:?}");
            self.check_views(number, bucket)?;
        }
        let seats: u32 = self.buckets.iter().map(|bucket| bucket.counts.all()).sum();
        ensure!(seats == self.venue.seat_count(), "the buckets count {seats} seats");
        Ok(())
    }

    /// Checks that each view has exactly the seats that its flags allow.
    fn check_views(&self, number: usize, bucket: &Bucket) -> Checked {
        let kinds: Vec<Kind> = bucket.views.iter().map(|view| view.kind).collect();
        ensure!(
            kinds.first() == Some(&Kind::default()),
            "bucket {number} has no view for requests without flags"
        );
        let second = kinds.get(1).copied();
        ensure!(
            bucket.flags == 0 || second == Some(Kind::with(bucket.flags)),
            "bucket {number} has no view for all flags"
        );
        for view in &bucket.views {
            let (kind, flags) = (view.kind, view.kind.allowed);
            ensure!(
                flags & !bucket.flags == 0,
                "bucket {number} has a view for flags {flags:x} that it has not"
            );
            let same = kinds.iter().filter(|&&other| other == kind).count();
            ensure!(same == 1, "bucket {number} has {same} views for flags {flags:x}");
            let sound = self.view(bucket, kind);
            let (free, expected) = (view.free, sound.free);
            ensure!(
                free == expected,
                "bucket {number} has {expected} free seats for flags {flags:x}, not {free}"
            );
            let strips = bucket.strips.iter();
            let runs: Vec<Runs> = strips.map(|&strip| Runs::of(&self.takeable(strip, kind))).collect();
            view.runs.check(&runs)?;
        }
        Ok(())
    }

    /// Checks that no turn is later than the last one.
    fn check_turns(&self) -> Checked {
        let areas = self.venue.areas().len();
        ensure!(self.area_turns.len() == areas, "{} of {areas} areas have a turn", self.area_turns.len());
        let mut turns = self.area_turns.iter().copied().chain(self.buckets.iter().map(|bucket| bucket.turn));
        ensure!(turns.all(|turn| turn <= self.turns), "a turn is later than the last, {}", self.turns);
        Ok(())
    }
}

/// Sums over the claims of a user or of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    seats: usize,
    claims: usize,
    holds: usize,
}

impl Claims {
    /// Checks claims, users, orders, names and deadlines against one another. O(claims + seats of claims).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        self.table.check()?;
        self.users.check()?;
        self.orders.check()?;
        self.deadlines.check()?;
        self.by_token.check(self.table.iter().map(|(id, claim)| (id, &claim.token[..])))?;
        self.by_user.check(self.users.iter().map(|(id, user)| (id, &user.name[..])))?;
        self.by_order.check(self.orders.iter().map(|(id, order)| (id, &order.reference[..])))?;
        let (mut users, mut orders) = (HashMap::<u32, Sums>::new(), HashMap::<u32, Sums>::new());
        for (id, claim) in self.table.iter() {
            let rising = claim.seats.is_sorted_by(|a, b| a < b);
            ensure!(
                rising && !claim.seats.is_empty(),
                "the seats of claim {id} do not rise, or there is none"
            );
            let user = users.entry(claim.user).or_default();
            user.seats += claim.seats.len();
            user.claims += 1;
            match claim.sale {
                None => {
                    user.holds += 1;
                    ensure!(self.deadlines.get(id).is_some(), "hold {id} has no deadline");
                }
                Some(Sale { order, bought }) => {
                    ensure!(!self.added.contains_key(&id), "sale {id} remembers requests that add seats");
                    ensure!(self.deadlines.get(id).is_none(), "sale {id} has a deadline");
                    ensure!(bought as usize >= claim.seats.len(), "sale {id} has more seats than {bought}");
                    if let Some(order) = order {
                        orders.entry(order).or_default().claims += 1;
                    }
                }
            }
        }
        for (id, added) in &self.added {
            let known = self.table.get(*id).is_some();
            ensure!(known && (1..=MAX_ADDED).contains(&added.len()), "claim {id} remembers {added:?}");
        }
        for id in &self.exchanges {
            let is_hold = self.table.get(*id).is_some_and(|claim| claim.sale.is_none());
            ensure!(is_hold, "claim {id}, which is in exchange, is no hold");
        }
        let holds: usize = users.values().map(|user| user.holds).sum();
        ensure!(self.deadlines.len() == holds, "{holds} holds have {} deadlines", self.deadlines.len());
        ensure!(self.users.len() == users.len(), "{} of {} users have claims", users.len(), self.users.len());
        for (id, user) in self.users.iter() {
            let (seats, claims) = (user.seats as usize, user.claims as usize);
            let (counted, sums) = (Sums { seats, claims, holds: user.holds.len() as usize }, users.get(&id));
            ensure!(Some(&counted) == sums, "user {id} counts {counted:?} and has {sums:?}");
            user.holds.check(&self.table)?;
            let is_own = |hold: u32| {
                self.table.get(hold).is_some_and(|claim| claim.user == id && claim.sale.is_none())
            };
            ensure!(self.holds_of(id).all(is_own), "a hold of user {id} is sold, or another user's");
        }
        ensure!(
            self.orders.len() == orders.len(),
            "{} of {} orders have claims",
            orders.len(),
            self.orders.len()
        );
        for (id, order) in self.orders.iter() {
            let (claims, listed) = (orders.get(&id).map_or(0, |order| order.claims), order.claims.len());
            ensure!(listed as usize == claims, "order {id} lists {listed} claims of {claims}");
            order.claims.check(&self.table)?;
            let is_own = |claim: u32| {
                let sale = self.table.get(claim).and_then(|claim| claim.sale);
                sale.is_some_and(|sale| sale.order == Some(id))
            };
            ensure!(self.claims_of(id).all(is_own), "a claim of order {id} is another order's");
        }
        Ok(())
    }
}

impl Venue {
    /// Checks areas, rows, layouts, names and their indexes against each other. O(positions).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        self.check_areas()?;
        self.own_ids.check()?;
        let stray = self.own_ids.iter().find(|&(seat, _)| !self.is_seat(seat));
        ensure!(stray.is_none(), "a break has an own id: {stray:?}");
        let (mut positions, mut seats) = (0, 0);
        for row in self.rows() {
            ensure!(
                self.base(row) == positions,
                "row {row} begins at {} and not {positions}",
                self.base(row)
            );
            positions += Seat::from(self.layout(row).len);
            seats += self.seats_of(row).count();
            let (area, label) = (self.area_of(row), self.row_label(row));
            let found = self.rows_labelled(area, label.as_bytes()).filter(|&other| other == row).count();
            ensure!(found == 1, "row {row} is found {found} times by its label");
        }
        ensure!(self.rows_by_label.len() == self.rows.len(), "there are labels of rows that do not exist");
        ensure!(self.positions == positions, "there are {positions} positions, not {}", self.positions);
        ensure!(self.seats as usize == seats, "there are {seats} seats, not {}", self.seats);
        let blocks = positions.div_ceil(64) as usize;
        ensure!(
            self.row_of_block.len() == blocks,
            "{} of {blocks} blocks have a row",
            self.row_of_block.len()
        );
        for (block, &row) in self.row_of_block.iter().enumerate() {
            let first = block as Seat * 64;
            let inside = self.rows().contains(&row) && self.positions_of(row).contains(&first);
            ensure!(inside, "position {first} is not in row {row}");
        }
        for names in [&self.tiers, &self.flags] {
            names.by_name.check((0..).zip(names.names.iter().map(|name| name.as_bytes())))?;
        }
        self.check_layouts()
    }

    /// Checks that the areas have all rows, in order.
    fn check_areas(&self) -> Checked {
        let mut next = 0;
        for (area, info) in self.areas.iter().enumerate() {
            ensure!(info.rows.start == next && info.rows.end > next, "area {area} has rows {:?}", info.rows);
            next = info.rows.end;
            ensure!(next as usize <= self.rows.len(), "area {area} has rows up to {next}");
            let other = info.rows.clone().find(|&row| self.area_of(row) as usize != area);
            ensure!(other.is_none(), "row {other:?} of area {area} is of another");
            let mut places: Vec<(Row, usize)> = self.rows_in_plan(area as Area).zip(0..).collect();
            places.sort_unstable();
            let has_each = places.iter().map(|&(row, _)| row).eq(info.rows.clone());
            ensure!(has_each, "the plan of area {area} has other rows than {:?}", info.rows);
            ensure!(
                info.planned.is_empty() || !info.planned.is_sorted(),
                "the rows of area {area} are numbered as in the plan, and listed"
            );
            let order = places.iter().map(|&(row, place)| (self.least_distance(row), self.rank(row), place));
            ensure!(order.is_sorted(), "the rows of area {area} are not in order");
        }
        ensure!(next as usize == self.rows.len(), "row {next} is of no area");
        self.check_standing_areas()?;
        self.area_by_id.check((0..).zip(self.areas.iter().map(|area| area.id.as_bytes())))
    }

    /// Checks that each position of a layout is a break or has one tier, and that only seats have flags and labels.
    fn check_layouts(&self) -> Checked {
        for (number, layout) in self.layouts.iter().enumerate() {
            let len = usize::from(layout.len);
            let mut slots: Vec<Option<usize>> = vec![None; len];
            ensure!(
                layout.tiers.is_sorted_by_key(|&(tier, _)| tier),
                "the tiers of layout {number} are not in order"
            );
            for (slot, (tier, seats)) in layout.tiers.iter().enumerate() {
                let known = usize::from(*tier) < self.tiers.names.len();
                ensure!(known, "layout {number} has seats of unknown tier {tier}");
                let kept = seats.kept.words() == seats.words.len() && !seats.words.contains(&0);
                ensure!(
                    kept && seats.count() > 0,
                    "layout {number} keeps words without a seat of tier {tier}"
                );
                for position in seats.ones() {
                    let Some(entry) = slots.get_mut(position) else {
                        return Err(Contradiction(format!("layout {number} has a seat beyond its end")));
                    };
                    ensure!(entry.is_none(), "position {position} of layout {number} has several tiers");
                    *entry = Some(slot);
                }
            }
            let slot_of = |at: usize| slots.get(at).copied().flatten();
            let stale = (0..len).find(|&at| layout.tier_slot(at) != slot_of(at));
            ensure!(stale.is_none(), "position {stale:?} of layout {number} has the slot of another tier");
            let rising = layout.flags.is_sorted_by(|a, b| a.0 < b.0);
            ensure!(rising, "the flags of layout {number} are not in their order");
            let stray =
                layout.flags.iter().find(|(at, set)| slot_of(usize::from(*at)).is_none() || *set == 0);
            ensure!(stray.is_none(), "layout {number} has flags where there is no seat: {stray:?}");
            layout.labels.check(layout.len, |at| slot_of(usize::from(at)).is_some())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{self, Plan};
    use super::*;
    use crate::seat::{Event, Request, decide};
    use crate::shared::Bytes;
    use crate::shared::list::List;
    use crate::shared::token::TokenChoice;

    /// A show with a hold of two seats, a sale of one under an order, and a blocked seat.
    fn sample_show() -> Show {
        let plan: Plan = plan::parse(
            br#"{"areas": [
                {"id": "A", "rows": [{"label": "1", "rank": 1, "tier": "gold", "seats": "1-5,|,A,B"},
                                     {"label": "2", "rank": 2, "tier": "gold", "seats": "1-5,|,A,B"}]},
                {"id": "B", "rows": [{"label": "1", "rank": 1, "seats": [
                    {"label": "1", "tier": "gold", "flags": ["view"]}, {"label": "2", "tier": "silver"}]}]}],
                "events": 5}"#,
        )
        .unwrap();
        let mut show = Show::new(&plan, 0).unwrap();
        pick(&mut show, b"held", &[b"A-1-1", b"A-1-3"]);
        pick(&mut show, b"sold", &[b"A-2-2"]);
        ask(&mut show, &Request::Confirm { token: b"sold", user: None, order: Some(b"order") });
        ask(&mut show, &Request::Block { name: None, until: None, per_user: None, seats: vec![b"B-1-2"] });
        ask(
            &mut show,
            &Request::Block { name: Some(b"press"), until: None, per_user: None, seats: vec![b"A-2-5"] },
        );
        show
    }

    fn ask(show: &mut Show, request: &Request<'_>) {
        let events = decide(show, 1, request).unwrap().events;
        events.iter().for_each(|event: &Event| show.apply(1, event));
    }

    fn pick(show: &mut Show, token: &[u8], seats: &[&[u8]]) {
        let token = TokenChoice { token, chosen: true };
        let pick = crate::seat::request::Pick {
            user: token.token,
            ttl: 100,
            token,
            orphans: None,
            from: None,
            seats: seats.to_vec(),
            exchange: Vec::new(),
        };
        ask(show, &Request::Pick(pick));
    }

    fn swap_owners(show: &mut Show, a: Seat, b: Seat) {
        let (of_a, of_b) = (show.owners.get(a).unwrap(), show.owners.get(b).unwrap());
        assert!(of_a != of_b && show.owners.set(a, of_b) && show.owners.set(b, of_a));
    }

    /// Each damage, done to a sound show, is found.
    fn all_are_found(damages: &[fn(&mut Show)]) {
        let sound = sample_show();
        assert_eq!(sound.check(), Ok(()));
        for (number, damage) in damages.iter().enumerate() {
            let mut show = sound.clone();
            damage(&mut show);
            assert!(show.check().is_err(), "damage {number} is not found");
        }
    }

    #[test]
    fn check_finds_damaged_owners_and_buckets() {
        all_are_found(&[
            |show| swap_owners(show, 0, 1),
            |show| swap_owners(show, 0, 5),
            |show| show.words[0] ^= 1,
            |show| show.words[0] ^= 1 << 5,
            |show| show.buckets[0].counts.free += 1,
            |show| show.buckets[0].flags = 1,
            |show| show.buckets[0].views[0].free -= 1,
            |show| _ = show.buckets[1].views.pop(),
            |show| show.buckets[0].views[0].runs.set(0, Runs::default()),
            |show| show.buckets[0].tier = 1,
            |show| show.buckets[0].turn = 1,
            |show| show.area_turns[1] = 1,
            |show| show.all_buckets.swap(0, 1),
            |show| show.tier_buckets.swap(0, 1),
            |show| show.area_buckets.swap(0, 1),
            |show| show.row_strips.swap(0, 2),
            |show| show.row_strips_at[1] = 0,
        ]);
    }

    #[test]
    fn check_finds_seats_that_cannot_be_in_their_block() {
        let seat = |show: &Show, id: &[u8]| show.venue.find(id).unwrap();
        let press = Bytes::from_slice(b"press");
        let damages: [(Option<&Bytes>, &[u8]); 3] =
            [(Some(&press), b"A-1-2"), (None, b"A-1-1"), (None, b"A-2-2")];
        for (name, id) in damages {
            let mut show = sample_show();
            let free = seat(&show, id);
            show.blocks.add(name, Some(90), None, &[free]);
            assert!(show.check().is_err(), "{name:?} {id:?}");
        }
        let mut show = sample_show();
        let aisle = seat(&show, b"A-1-5") + 1;
        show.owners.set(aisle, show.owners.get(seat(&show, b"B-1-2")).unwrap());
        show.blocks.add(Some(&press), None, None, &[aisle]);
        assert!(show.check_blocks().is_err(), "a break");
    }

    #[test]
    fn check_finds_damaged_claims() {
        let claim = |show: &Show, token: &[u8]| show.claims.find(token).unwrap();
        assert_eq!((claim(&sample_show(), b"held"), claim(&sample_show(), b"sold")), (0, 1));
        all_are_found(&[
            |show| _ = show.claims.table[0].seats.pop(),
            |show| show.claims.table[0].seats.reverse(),
            |show| show.claims.table[0].links = [1; 2],
            |show| show.claims.table[0].user = 1,
            |show| show.claims.table[0].sale = Some(Sale { order: None, bought: 9 }),
            |show| show.claims.table[1].sale = Some(Sale { order: None, bought: 1 }),
            |show| show.claims.table[1].sale = Some(Sale { order: Some(0), bought: 0 }),
            |show| show.claims.users[0].seats += 1,
            |show| show.claims.users[0].claims += 1,
            |show| show.claims.users[1].holds = show.claims.users[0].holds,
            |show| show.claims.users[0].holds = List::default(),
            |show| show.claims.orders[0].claims = List::default(),
            |show| show.claims.deadlines.remove(0),
            |show| show.claims.deadlines.set(1, 5),
            |show| _ = show.claims.added.insert(0, [].into()),
            |show| _ = show.claims.added.insert(0, [1; MAX_ADDED + 1].into()),
            |show| _ = show.claims.added.insert(1, [1].into()),
            |show| _ = show.claims.added.insert(9, [1].into()),
            |show| _ = show.claims.exchanges.insert(1),
            |show| _ = show.claims.exchanges.insert(9),
            |show| show.claims.by_token.remove(b"held", 0),
            |show| show.claims.by_user.insert(b"nobody", 2),
            |show| show.claims.by_order.remove(b"order", 0),
        ]);
    }

    #[test]
    fn check_finds_a_damaged_venue() {
        all_are_found(&[
            |show| show.venue.seats += 1,
            |show| show.venue.positions -= 1,
            |show| show.venue.areas[0].rows.end = 1,
            |show| show.venue.areas[0].planned = [1, 1].into(),
            |show| show.venue.areas[0].planned = [0, 1].into(),
            |show| show.venue.rows[0].area = 1,
            |show| show.venue.rows[0].rank = 3,
            |show| show.venue.rows[1].base += 1,
            |show| show.venue.rows[1].layout = 1,
            |show| show.venue.area_by_id.insert(b"C", 0),
            |show| show.venue.rows_by_label.clear(),
            |show| show.venue.row_of_block[0] = 1,
            |show| show.venue.tiers.names.swap(0, 1),
            |show| _ = show.venue.flags.names.pop(),
            |show| show.venue.layouts[0].tiers[0].1.words[0] ^= 1 << 5,
            |show| show.venue.layouts[0].tiers[0].1.kept.0 = 2,
            |show| show.venue.layouts[0].tiers[0].1.words.push(0),
            |show| show.venue.layouts[1].flags[0].0 = 5,
        ]);
    }
}
