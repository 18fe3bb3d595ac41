//! Encodes a show as bytes, for RDB files, `DUMP`, AOF rewrites and digests; and decodes them.
//!
//! The encoding is canonical: equal shows have equal bytes. Decoding trusts nothing: the plan is built as a client's
//! would be, and every seat, count and reference is checked before it is used.

use super::claims::{Claim, MAX_COUNT, Seats, Stage};
use super::plan::{self, Plan};
use super::state::{Owner, SeatState, Show};
use super::venue::Seat;
use crate::shared::Bytes;
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::outbox::Outbox;

/// Version of the encoding that `encode` writes. `decode` reads this one and every older one.
///
/// Version 2 has the numbers of the claims, so that a cursor over them stays valid on a replica and after a restart.
/// Version 3 has the waiting list. Version 4 has blocks with a name or an end, and waits for their seats.
pub const VERSION: u64 = 4;

impl Show {
    /// Encodes the show. O(positions + claims log claims).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.unsigned(VERSION);
        out.signed(self.applied);
        out.string(self.plan_json().as_bytes());
        out.unsigned(self.turns);
        let turns = || self.area_turns.iter().copied().chain(self.buckets.iter().map(|bucket| bucket.turn));
        out.unsigned(turns().filter(|&turn| turn > 0).count() as u64);
        for (place, turn) in turns().enumerate().filter(|&(_, turn)| turn > 0) {
            out.unsigned(place as u64);
            out.unsigned(turn);
        }
        let blocked: Seats =
            (0..self.venue.position_count()).filter(|&seat| self.owner(seat) == Owner::Blocked).collect();
        out.rising(&blocked);
        let mut claims: Vec<(u32, &Claim)> = self.claims.iter().collect();
        claims.sort_unstable_by(|(_, a), (_, b)| a.token.cmp(&b.token));
        out.unsigned(claims.len() as u64);
        claims.iter().for_each(|(number, _)| out.field(number));
        out.field(&self.claims.free_numbers().to_vec());
        for (_, claim) in claims {
            self.encode_claim(claim, &mut out);
        }
        self.encode_blocks(&mut out);
        self.encode_waiters(&mut out);
        self.outbox.encode(&mut out);
        out.bytes
    }

    fn encode_claim(&self, claim: &Claim, out: &mut Writer) {
        out.string(&claim.token);
        out.string(&self.claims.user(claim.user).name);
        out.signed(claim.created);
        out.unsigned(claim.fingerprint);
        out.rising(&claim.seats);
        match claim.stage {
            Stage::Held { until } => {
                out.unsigned(0);
                out.signed(until);
            }
            Stage::Sold { order, bought } => {
                out.unsigned(1);
                out.optional(order.map(|order| &self.claims.order(order).reference[..]));
                out.unsigned(bought.into());
            }
        }
    }

    /// Decodes a show.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Reader::new(bytes);
        let version = reader.unsigned()?;
        if !(1..=VERSION).contains(&version) {
            return Err(Damaged("the version of the encoding is unknown"));
        }
        let applied = reader.reached()?;
        let plan: Plan = plan::parse(reader.string()?).map_err(|_| Damaged("the plan is not well-formed"))?;
        let mut show = Self::new(&plan, applied).map_err(|_| Damaged("the plan breaks a rule"))?;
        show.turns = reader.unsigned()?;
        for _ in 0..reader.unsigned()? {
            let place = reader.unsigned()? as usize;
            let turn = reader.unsigned()?;
            if turn == 0 || turn > show.turns {
                return Err(Damaged("a turn is later than the last one"));
            }
            let areas = show.area_turns.len();
            let slot = match place.checked_sub(areas) {
                None => show.area_turns.get_mut(place),
                Some(bucket) => show.buckets.get_mut(bucket).map(|bucket| &mut bucket.turn),
            };
            let slot = slot.ok_or(Damaged("a turn is of an unknown area or bucket"))?;
            if std::mem::replace(slot, turn) != 0 {
                return Err(Damaged("a turn is given twice"));
            }
        }
        let blocked = reader.rising(Self::MAX_POSITIONS)?;
        show.must_be_free(&blocked)?;
        show.hand_over(&blocked, SeatState::Free, SeatState::Blocked, Owner::Blocked);
        let claims = reader.unsigned()?;
        if version >= 2 {
            let numbers = (0..claims).map(|_| reader.field()).collect::<Result<Vec<u32>, _>>()?;
            let fit = show.claims.number(&numbers, reader.field()?);
            fit.ok_or(Damaged("the numbers of the claims contradict each other"))?;
        }
        let mut last = Bytes::new();
        for _ in 0..claims {
            let token = reader.identifier()?;
            if token <= last {
                return Err(Damaged("the claims are not in order"));
            }
            last.clone_from(&token);
            show.decode_claim(token, &mut reader)?;
        }
        if version >= 4 {
            show.decode_blocks(&mut reader)?;
        }
        if version >= 3 {
            show.decode_waiters(&mut reader, version >= 4)?;
        }
        show.outbox = Outbox::decode(&mut reader, &[b"evt"])?;
        reader.finish()?;
        Ok(show)
    }

    fn decode_claim(&mut self, token: Bytes, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let user = reader.identifier()?;
        let created = reader.time()?;
        let fingerprint = reader.unsigned()?;
        let seats = Seats::from_vec(reader.rising(MAX_COUNT as usize)?);
        if seats.is_empty() {
            return Err(Damaged("a claim has no seat"));
        }
        self.must_be_free(&seats)?;
        let id = match reader.unsigned()? {
            0 => {
                let until = reader.time()?;
                self.claims.hold(token, &user, created, until, fingerprint, seats.clone())
            }
            1 => {
                let order = reader.optional_identifier()?;
                let bought = reader.number()?;
                if !(seats.len()..=MAX_COUNT as usize).contains(&(bought as usize)) {
                    return Err(Damaged("a sale has more seats than were bought"));
                }
                let id = self.claims.hold(token, &user, created, created, fingerprint, seats.clone());
                self.claims.sell(id, order.as_deref());
                self.claims.set_bought(id, bought);
                id
            }
            _ => return Err(Damaged("a claim is neither held nor sold")),
        };
        let state = match self.claims.get(id).stage {
            Stage::Held { .. } => SeatState::Held,
            Stage::Sold { .. } => SeatState::Sold,
        };
        self.hand_over(&seats, SeatState::Free, state, Owner::Claim(id));
        Ok(())
    }

    fn must_be_free(&self, seats: &[Seat]) -> Result<(), Damaged> {
        let free = |&seat: &Seat| self.venue.is_seat(seat) && self.owner(seat) == Owner::Free;
        if seats.iter().all(free) { Ok(()) } else { Err(Damaged("a seat is unknown, or has two owners")) }
    }
}
