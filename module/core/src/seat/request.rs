//! Requests to a show, with parsed arguments. docs/seats.md describes the commands.

use super::plan::{PickOrphans, PlanPart};
pub use super::wish::{Adjacent, MAX_NEEDS, NamedWish, Need, Orphans, Wish};
use crate::shared::Millis;
use crate::shared::codec::Writer;
use crate::shared::token::TokenChoice;
use std::cell::Cell;

/// A request that may change a show.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// `SEAT.HOLD`: the best seats.
    Hold(Hold<'a>),
    /// `SEAT.HOLD ... ADD`: the best seats, beside those of a live hold.
    AddBest(AddBest<'a>),
    /// `SEAT.PICK`: just these seats.
    Pick(Pick<'a>),
    /// `SEAT.PICK ... ADD`: these seats join the live hold of the token, or make it.
    AddPicked(Pick<'a>),
    /// `SEAT.EXTEND`.
    Extend {
        /// The hold.
        token: &'a [u8],
        /// The new time to live, from now, in milliseconds.
        ttl: Millis,
    },
    /// `SEAT.CONFIRM`.
    Confirm {
        /// The hold.
        token: &'a [u8],
        /// The user whose hold it must be.
        user: Option<&'a [u8]>,
        /// The order under which the sale is recorded.
        order: Option<&'a [u8]>,
    },
    /// `SEAT.CONFIRM ... EXCHANGE`: sells a hold, and refunds seats of an order.
    Exchange {
        /// The hold.
        token: &'a [u8],
        /// The user whose hold it must be.
        user: Option<&'a [u8]>,
        /// The order under which the sale is recorded.
        order: Option<&'a [u8]>,
        /// The order of the seats to refund.
        from: &'a [u8],
        /// The seats to refund.
        seats: Vec<&'a [u8]>,
    },
    /// `SEAT.RELEASE`.
    Release {
        /// The hold.
        token: &'a [u8],
        /// The seats to release; `None` for all seats of the hold.
        seats: Option<Vec<&'a [u8]>>,
        /// The block to which the seats go; `None` to free them.
        into: Option<&'a [u8]>,
    },
    /// `SEAT.REFUND`.
    Refund {
        /// The order to which all seats must belong.
        order: Option<&'a [u8]>,
        /// Sold seats; `None` for all seats of the order.
        seats: Option<Vec<&'a [u8]>>,
        /// The block to which the seats go; `None` to free them.
        into: Option<&'a [u8]>,
    },
    /// `SEAT.MOVE`: sales move to other seats.
    Move(Move<'a>),
    /// `SEAT.TRANSFER`: another user has sold seats.
    Transfer(Transfer<'a>),
    /// `SEAT.BLOCK`; with a name or an end, in a block.
    Block {
        /// Name of the block.
        name: Option<&'a [u8]>,
        /// When the block ends by itself.
        until: Option<Millis>,
        /// How many seats of the block a user may have; 0 for any number.
        per_user: Option<u32>,
        /// The seats to block.
        seats: Vec<&'a [u8]>,
    },
    /// `SEAT.BLOCK ... HOLD`: the seats of a hold are blocked; with a name or an end, in a block.
    BlockHold {
        /// Name of the block.
        name: Option<&'a [u8]>,
        /// When the block ends by itself.
        until: Option<Millis>,
        /// How many seats of the block a user may have; 0 for any number.
        per_user: Option<u32>,
        /// The hold.
        token: &'a [u8],
    },
    /// `SEAT.UNBLOCK`.
    Unblock(Vec<&'a [u8]>),
    /// `SEAT.UNBLOCK ... NAME`: the name of a block.
    EndBlock(&'a [u8]),
    /// `SEAT.ALTER`.
    Alter(PlanPart),
    /// `SEAT.WAIT`: the best seats, now or as soon as they are free.
    Wait(Wait<'a>),
    /// `SEAT.UNWAIT`: the token of a wait.
    Unwait(&'a [u8]),
}

/// The most seats that a refund of a whole order frees.
pub const MAX_REFUNDED: usize = 20_000;

/// `SEAT.MOVE key [ANYTIER] n from to [from to ...]`
#[derive(Clone, Debug)]
pub struct Move<'a> {
    /// Sold seats, and for each the seat to which its sale moves: a free seat, or another of the sold ones.
    pub pairs: Vec<(&'a [u8], &'a [u8])>,
    /// Whether the seats of a pair may be of different tiers.
    pub any_tier: bool,
}

/// `SEAT.TRANSFER key user [ORDER ref] [TO ORDER ref] SEATS n seat ...`
#[derive(Clone, Debug)]
pub struct Transfer<'a> {
    /// The user who has the seats from now on.
    pub user: &'a [u8],
    /// Sold seats.
    pub seats: Vec<&'a [u8]>,
    /// The order to which all seats must belong.
    pub order: Option<&'a [u8]>,
    /// The order under which they are sold from now on; `None` for the one that they have.
    pub to_order: Option<&'a [u8]>,
    /// The token of the new sale, which is not in use.
    pub token: &'a [u8],
}

/// `SEAT.WAIT key user count TTL ms OFFER ms ...`
#[derive(Clone, Debug)]
pub struct Wait<'a> {
    /// The request for a hold; its time to live is that of the wait.
    pub hold: Hold<'a>,
    /// Time to live of the offered hold.
    pub offer: Millis,
    /// Priority; the highest is served first.
    pub priority: i32,
}

/// `SEAT.HOLD key user count TTL ms ...`
#[derive(Clone, Debug)]
pub struct Hold<'a> {
    /// The buyer.
    pub user: &'a [u8],
    /// The seats.
    pub wish: NamedWish<'a>,
    /// Time to live of the hold, in milliseconds.
    pub ttl: Millis,
    /// A live hold of the user that the new hold replaces.
    pub replace: Option<Replace<'a>>,
    /// Sold seats of the user that will be refunded when the hold is sold; limits do not count them.
    pub exchange: Vec<&'a [u8]>,
    /// The new hold's token.
    pub token: TokenChoice<'a>,
}

/// `SEAT.HOLD ... TOKEN token ADD [ONCE id]`
#[derive(Clone, Debug)]
pub struct AddBest<'a> {
    /// The request for the seats; it makes the hold if there is no live hold of its token.
    pub hold: Hold<'a>,
    /// Names the request, which is carried out once.
    pub once: Option<&'a [u8]>,
}

/// `REPLACE token [OTHER]`
#[derive(Clone, Copy, Debug)]
pub struct Replace<'a> {
    /// The hold to release.
    pub token: &'a [u8],
    /// Whether the new hold must have other seats.
    pub other: bool,
}

/// `SEAT.PICK key user TTL ms [TOKEN token] SEATS n seat ...`
#[derive(Clone, Debug)]
pub struct Pick<'a> {
    /// The buyer.
    pub user: &'a [u8],
    /// Life of the hold.
    pub ttl: Millis,
    /// The hold's token.
    pub token: TokenChoice<'a>,
    /// Whether the seats may leave a single one; `None` for what the show says.
    pub orphans: Option<PickOrphans>,
    /// The block to which the seats belong; `None` for free seats.
    pub from: Option<&'a [u8]>,
    /// Ids of the seats.
    pub seats: Vec<&'a [u8]>,
    /// As in `Hold`.
    pub exchange: Vec<&'a [u8]>,
}

impl Hold<'_> {
    /// A hash of all arguments except the time to live, by which a retry is recognised; 0 if the caller chose no
    /// token. The hash is kept with the hold, so it must be the same in every version.
    pub fn fingerprint(&self) -> u64 {
        if !self.token.chosen {
            return 0;
        }
        let wish = &self.wish;
        hash_of(|writer| {
            writer.unsigned(1);
            writer.string(self.user);
            writer.signed(wish.count.into());
            writer.optional(wish.tier);
            writer.unsigned(wish.adjacent.number());
            writer.unsigned(wish.orphans.number());
            write_set(writer, &wish.areas);
            write_set(writer, &wish.flags);
            write_set(writer, &wish.preferred);
            writer.optional(self.replace.map(|replace| replace.token));
            writer.unsigned(self.replace.map_or(0, |replace| u64::from(replace.other)));
            let mut needs: Vec<(&[u8], u32)> =
                wish.needs.iter().map(|need| (need.flag, need.count)).collect();
            needs.sort_unstable();
            for (flag, count) in needs {
                writer.string(flag);
                writer.signed(count.into());
            }
            write_from(writer, wish.from);
            write_exchange(writer, &self.exchange);
        })
    }
}

impl AddBest<'_> {
    /// As `Hold::fingerprint`. A hold remembers those of its requests with `ONCE`.
    pub fn fingerprint(&self) -> u64 {
        if !self.hold.token.chosen {
            return 0;
        }
        let hold = self.hold.fingerprint();
        hash_of(|writer| {
            writer.unsigned(4);
            writer.unsigned(hold);
            writer.optional(self.once);
        })
    }
}

impl Wait<'_> {
    /// As `Hold::fingerprint`. The offered hold has it as well.
    pub fn fingerprint(&self) -> u64 {
        if !self.hold.token.chosen {
            return 0;
        }
        let hold = self.hold.fingerprint();
        hash_of(|writer| {
            writer.unsigned(3);
            writer.unsigned(hold);
            writer.signed(self.offer);
            writer.signed(self.priority.into());
        })
    }
}

impl Pick<'_> {
    /// As `Hold::fingerprint`, of the request with `ADD`.
    pub fn add_fingerprint(&self) -> u64 {
        let pick = self.fingerprint();
        hash_of(|writer| {
            writer.unsigned(5);
            writer.unsigned(pick);
        })
    }

    /// As `Hold::fingerprint`.
    pub fn fingerprint(&self) -> u64 {
        if !self.token.chosen {
            return 0;
        }
        hash_of(|writer| {
            writer.unsigned(2);
            writer.string(self.user);
            let mut seats = self.seats.clone();
            seats.sort_unstable();
            for seat in seats {
                writer.string(seat);
            }
            if let Some(orphans) = self.orphans {
                writer.unsigned(1 + orphans.number());
            }
            write_from(writer, self.from);
            write_exchange(writer, &self.exchange);
        })
    }
}

/// Adds the seats that are given in exchange to a fingerprint, if there are some.
fn write_exchange(writer: &mut Writer, seats: &[&[u8]]) {
    // No length of a name is as great.
    const EXCHANGE: u64 = 1 << 33;
    if !seats.is_empty() {
        writer.unsigned(EXCHANGE);
        write_set(writer, seats);
    }
}

/// Writes a set of names: in order, each once.
fn write_set(writer: &mut Writer, names: &[&[u8]]) {
    if names.len() <= 1 {
        writer.unsigned(names.len() as u64);
        names.iter().for_each(|name| writer.string(name));
        return;
    }
    let mut names = names.to_vec();
    names.sort_unstable();
    names.dedup();
    writer.unsigned(names.len() as u64);
    for name in names {
        writer.string(name);
    }
}

/// Adds the block to a fingerprint, if there is one.
fn write_from(writer: &mut Writer, from: Option<&[u8]>) {
    // No length of a name is as great.
    const FROM: u64 = 1 << 32;
    if let Some(name) = from {
        writer.unsigned(FROM);
        writer.string(name);
    }
}

/// The largest buffer that is kept for the next fingerprint.
const KEPT_BUFFER: usize = 4096;

thread_local! {
    /// The buffer of a fingerprint, kept from one to the next.
    static BUFFER: Cell<Writer> = const { Cell::new(Writer { bytes: Vec::new() }) };
}

/// The hash of what `write` writes; never 0.
fn hash_of(write: impl FnOnce(&mut Writer)) -> u64 {
    let mut writer = BUFFER.take();
    writer.bytes.clear();
    write(&mut writer);
    let hash = xxhash_rust::xxh3::xxh3_64(&writer.bytes).max(1);
    if writer.bytes.capacity() <= KEPT_BUFFER {
        BUFFER.set(writer);
    }
    hash
}
