//! Encodes a show as bytes, for RDB files, `DUMP`, AOF rewrites and digests; and decodes them.
//!
//! The encoding is canonical: equal shows have equal bytes. Decoding trusts nothing: the plan is built as a client's
//! would be, and every seat, count and reference is checked before it is used.

use super::blocks::{Block, MAX_BLOCK_SEATS};
use super::claims::{Claim, MAX_ADDED, MAX_COUNT, Sale, Seats, Stage};
use super::ended::MAX_ENDED;
use super::event::Waited;
use super::plan::{self, Plan};
use super::state::{Owner, SeatState, Show};
use super::venue::Seat;
use super::waiting::Waiter;
use crate::fields;
use crate::shared::codec::{Damaged, Reader, Writer, ensure};
use crate::shared::field::Any;
use crate::shared::outbox::Outbox;
use crate::shared::table::Table;
use crate::shared::{Bytes, Millis, copied};
use hashbrown::HashSet;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Version of the encoding.
pub const VERSION: u64 = 1;

fields! {
    /// The last turn of an area or a bucket.
    #[derive(Clone, Copy, Debug)]
    pub struct LastTurn {
        /// Number of the area; of a bucket, its number behind those of all areas.
        pub place: u32,
        /// The count of turns, at least 1.
        pub turn: Any<u64>,
    }

    /// A hold or a sale.
    #[derive(Clone, Debug)]
    pub struct ClaimRecord {
        /// Its name.
        pub token: Bytes,
        /// Its user.
        pub user: Bytes,
        /// When the hold was made.
        pub created: Millis,
        /// Hash of the request; 0 if the caller chose no token.
        pub fingerprint: Any<u64>,
        /// The seats, in ascending order.
        pub seats: Seats,
        /// Deadline of a hold; `None` for a sale.
        pub until: Option<Millis>,
        /// The order of a sale, if there is one.
        pub order: Option<Bytes>,
        /// How many seats were bought, including those refunded since; 0 for a hold.
        pub bought: u32,
        /// Hashes of the requests that added seats to a hold once, the oldest first.
        pub added: Vec<Any<u64>>,
        /// Whether a hold is sold in exchange for seats that its user has bought.
        pub exchange: bool,
    }

    /// A user who waits.
    #[derive(Clone, Debug)]
    pub struct WaiterRecord {
        /// The event with which the wait began.
        pub waited: Waited,
        /// How many users had arrived before.
        pub arrival: u64,
        /// When the wait began.
        pub since: Millis,
    }
}

impl Show {
    /// Encodes the show. O(positions + claims log claims + waiters log waiters).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.unsigned(VERSION);
        out.field(&self.applied);
        out.string(self.plan_json().as_bytes());
        out.field(&Any(self.turns));
        let turns = self.area_turns.iter().copied().chain(self.buckets.iter().map(|bucket| bucket.turn));
        let turns = turns.zip(0..).filter(|&(turn, _)| turn > 0);
        out.field(&turns.map(|(turn, place)| LastTurn { place, turn: Any(turn) }).collect::<Vec<_>>());
        let positions = 0..self.venue.position_count();
        out.rising(&positions.filter(|&seat| self.owner(seat) == Owner::Blocked).collect::<Seats>());
        for (id, claim) in by_token(&self.claims.table, |claim| &claim.token, &mut out) {
            out.field(&self.claim_record(id, claim));
        }
        let mut blocks: Vec<&Block> = self.blocks.iter().map(|(_, block)| block).collect();
        blocks.sort_unstable_by_key(|block| (&block.name, block.until));
        out.unsigned(blocks.len() as u64);
        blocks.into_iter().for_each(|block| out.field(block));
        out.field(&self.waiters.arrivals);
        for (_, waiter) in by_token(&self.waiters.table, |waiter| &waiter.token, &mut out) {
            out.field(&self.waiter_record(waiter));
        }
        out.rising(&self.waiters.queued().iter().copied().collect::<Seats>());
        out.field(self.ended_waits.all());
        self.outbox.encode(&mut out);
        out.bytes
    }

    fn claim_record(&self, id: u32, claim: &Claim) -> ClaimRecord {
        let (until, order, bought) = match self.claims.stage(id) {
            Stage::Held { until } => (Some(until), None, 0),
            Stage::Sold(Sale { order, bought }) => {
                (None, order.map(|order| self.claims.order(order).reference.clone()), bought)
            }
        };
        ClaimRecord {
            token: claim.token.clone(),
            user: self.claims.user(claim.user).name.clone(),
            created: claim.created,
            fingerprint: Any(claim.fingerprint),
            seats: copied(&claim.seats),
            until,
            order,
            bought,
            added: self.claims.added(id).into_iter().map(Any).collect(),
            exchange: self.claims.exchanges.contains(&id),
        }
    }

    fn waiter_record(&self, waiter: &Waiter) -> WaiterRecord {
        let (Reverse(priority), arrival) = waiter.place;
        let waited = Waited {
            token: waiter.token.clone(),
            user: waiter.user.clone(),
            wish: self.waiters.queue_of(waiter).wish.clone(),
            priority,
            until: waiter.until,
            offer: waiter.offer,
            fingerprint: Any(waiter.fingerprint),
        };
        WaiterRecord { waited, arrival, since: waiter.since }
    }

    /// Decodes a show.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Reader::new(bytes);
        ensure(reader.unsigned()? == VERSION, "the version of the encoding is unknown")?;
        let applied = reader.reached()?;
        let plan: Plan = plan::parse(reader.string()?).map_err(|_| Damaged("the plan is not well-formed"))?;
        let mut show = Self::new(&plan, applied).map_err(|_| Damaged("the plan breaks a rule"))?;
        show.decode_turns(&mut reader)?;
        let blocked = reader.rising(Self::MAX_POSITIONS)?;
        show.must_be_free(&blocked)?;
        show.hand_over(&blocked, SeatState::Free, SeatState::Blocked, Owner::Blocked);
        show.decode_claims(&mut reader)?;
        show.decode_blocks(&mut reader)?;
        show.decode_waiters(&mut reader)?;
        let ended: BTreeMap<Bytes, Millis> = reader.field()?;
        ensure(ended.len() <= MAX_ENDED, "too many ended waits are remembered")?;
        show.ended_waits = ended.into();
        show.outbox = Outbox::decode(&mut reader, &[b"evt"])?;
        reader.finish()?;
        Ok(show)
    }

    fn decode_turns(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let Any(turns) = reader.field()?;
        self.turns = turns;
        for LastTurn { place, turn: Any(turn) } in reader.field::<Vec<LastTurn>>()? {
            ensure((1..=turns).contains(&turn), "a turn is later than the last one")?;
            let slot = match (place as usize).checked_sub(self.area_turns.len()) {
                None => self.area_turns.get_mut(place as usize),
                Some(bucket) => self.buckets.get_mut(bucket).map(|bucket| &mut bucket.turn),
            };
            let slot = slot.ok_or(Damaged("a turn is of an unknown area or bucket"))?;
            ensure(std::mem::replace(slot, turn) == 0, "a turn is given twice")?;
        }
        Ok(())
    }

    fn decode_claims(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let count;
        (count, self.claims.table) = numbered(reader)?;
        let mut last = Bytes::new();
        for _ in 0..count {
            let ClaimRecord {
                token,
                user,
                created,
                fingerprint,
                seats,
                until,
                order,
                bought,
                added,
                exchange,
            } = reader.field()?;
            ensure(token > last, "the claims are not in order")?;
            last.clone_from(&token);
            let sold = if until.is_some() { 0 } else { seats.len() };
            let most = if until.is_some() { 0 } else { MAX_COUNT as usize };
            let fits = (sold..=most).contains(&(bought as usize))
                && (until.is_none() || order.is_none())
                && (until.is_some() || !exchange)
                && added.len() <= if until.is_some() { MAX_ADDED } else { 0 }
                && added.iter().all(|hash| hash.0 != 0);
            if !fits || seats.len() > MAX_COUNT as usize {
                return Err(Damaged(
                    "a claim has more seats than it may, or a hold has what only a sale has",
                ));
            }
            self.must_be_free(&seats)?;
            let ends = until.unwrap_or(created);
            let id = self.claims.hold(token, &user, created, ends, fingerprint.0, copied(&seats));
            added.into_iter().for_each(|Any(hash)| self.claims.add_seats(id, &[], hash));
            if exchange {
                self.claims.exchanges.insert(id);
            }
            let mut state = SeatState::Held;
            if until.is_none() {
                self.claims.sell(id, order.as_deref(), bought);
                state = SeatState::Sold;
            }
            self.hand_over(&seats, SeatState::Free, state, Owner::Claim(id));
        }
        Ok(())
    }

    /// Decodes the blocks with a name or an end, after the owners of all seats.
    fn decode_blocks(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let mut last = None;
        for _ in 0..reader.unsigned()? {
            let Block { name, until, per_user, seats } = reader.field()?;
            let key = (name, until);
            ensure(last.as_ref().is_none_or(|last| *last < key), "the blocks are not in order")?;
            let name = key.0.as_ref();
            ensure(name.is_none_or(|name| self.blocks.called(name).is_none()), "two blocks have one name")?;
            self.fits_block(name.map(|name| &name[..]), until, seats.len())?;
            let limit_fits = |most: u32| (1..=MAX_BLOCK_SEATS).contains(&(most as usize)) && name.is_some();
            ensure(per_user.is_none_or(limit_fits), "the limit of a block is out of range")?;
            let fits =
                |&seat: &Seat| self.may_be_in_block(seat, name.is_some()) && self.blocks.of(seat).is_none();
            ensure(seats.iter().all(fits), "a seat of a block is free, or in two blocks")?;
            self.blocks.add(name, until, per_user, &seats);
            last = Some(key);
        }
        Ok(())
    }

    /// Decodes the waiting list and the seats that are queued for it, after the claims.
    fn decode_waiters(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let arrivals = reader.field()?;
        let count;
        (count, self.waiters.table) = numbered(reader)?;
        let (mut last, mut places) = (Bytes::new(), HashSet::new());
        for _ in 0..count {
            let WaiterRecord { waited, arrival, since } = reader.field()?;
            ensure(waited.token > last, "the waiters are not in order")?;
            ensure(
                arrival < arrivals && places.insert(arrival),
                "a waiter arrived after the last one, or with another",
            )?;
            self.fits_wait(&waited)?;
            last.clone_from(&waited.token);
            self.waiters.arrivals = arrival;
            self.wait(since, &waited);
        }
        self.waiters.arrivals = arrivals;
        // Whether the list was examined to its end is not part of the bytes.
        self.waiters.search_all(|_| true);
        let queued = reader.rising(Self::MAX_POSITIONS)?;
        self.must_be_free(&queued)?;
        ensure(queued.is_empty() || count > 0, "seats are queued for nobody")?;
        self.waiters.set_queued(&queued);
        Ok(())
    }

    fn must_be_free(&self, seats: &[Seat]) -> Result<(), Damaged> {
        let free = |&seat: &Seat| self.venue.is_seat(seat) && self.owner(seat) == Owner::Free;
        if seats.iter().all(free) { Ok(()) } else { Err(Damaged("a seat is unknown, or has two owners")) }
    }
}

/// The entries of a table by token, with their numbers. Writes their numbers in this order, and the free numbers in the order in which they
/// became free.
fn by_token<'a, T>(table: &'a Table<T>, token: fn(&T) -> &Bytes, out: &mut Writer) -> Vec<(u32, &'a T)> {
    let mut entries: Vec<(u32, &T)> = table.iter().collect();
    entries.sort_unstable_by(|(_, one), (_, other)| token(one).cmp(token(other)));
    out.field(&entries.iter().map(|&(number, _)| number).collect::<Vec<u32>>());
    out.field(&table.free().to_vec());
    entries
}

/// How many entries follow, and the empty table that gives them their numbers.
fn numbered<T>(reader: &mut Reader<'_>) -> Result<(usize, Table<T>), Damaged> {
    let next: Vec<u32> = reader.field()?;
    let table = Table::numbered(&next, reader.field()?);
    Ok((next.len(), table.ok_or(Damaged("the numbers of claims or waiters contradict each other"))?))
}
