//! What can be asked of a pool (docs/numbers.md, Commands), with every argument already parsed.

pub use super::model::settings::Policy;
use super::number::Number;
use crate::shared::Millis;
use crate::shared::token::TokenChoice;

/// A request that may change a pool. All byte strings are the caller's.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// `NUMPOOL.ADD`.
    Add(&'a [Number]),
    /// `NUMPOOL.DEL`.
    Del {
        /// Which.
        numbers: &'a [Number],
        /// One that carries a call goes when it ends.
        drain: bool,
    },
    /// `NUMPOOL.REG`.
    Reg {
        /// Which.
        numbers: &'a [Number],
        /// Life of the registration; the pool's own where absent.
        ttl: Option<Millis>,
        /// Who registers them.
        switch: Option<&'a [u8]>,
    },
    /// `NUMPOOL.UNREG` of numbers.
    Unreg(&'a [Number]),
    /// `NUMPOOL.UNREG` of all that a switch registered.
    UnregSwitch(&'a [u8]),
    /// `NUMPOOL.CALL`.
    Call(Call<'a>),
    /// `NUMPOOL.HANGUP`.
    HangUp {
        /// Which.
        number: Number,
        /// Only this call.
        lease: Option<&'a [u8]>,
        /// Rest after it; the pool's own where absent.
        cooldown: Option<Millis>,
    },
    /// `NUMPOOL.RENEW`.
    Renew {
        /// Which.
        number: Number,
        /// Its live lease.
        lease: &'a [u8],
        /// Its new life, from now.
        ttl: Millis,
    },
    /// `NUMPOOL.RECONCILE`.
    Reconcile {
        /// Whose leases.
        switch: &'a [u8],
        /// Only what was granted before.
        before: Option<Millis>,
        /// What the switch still carries.
        leases: &'a [&'a [u8]],
    },
    /// `NUMPOOL.CONFIG`.
    Configure(Changes),
}

/// `NUMPOOL.CALL key [number] ...`
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Just this one; else one is picked.
    pub number: Option<Number>,
    /// Life of the lease; the pool's own where absent.
    pub ttl: Option<Millis>,
    /// Whether the lease never falls due, whatever the pool's own life is: something else will end the call.
    pub endless: bool,
    /// Name of the lease.
    pub lease: TokenChoice<'a>,
    /// Who carries the call; who registered the number where absent.
    pub switch: Option<&'a [u8]>,
    /// Who is called.
    pub peer: Option<&'a [u8]>,
    /// What the number must begin with.
    pub prefix: Option<Number>,
    /// How to pick; the pool's own way where absent.
    pub pick: Option<Policy>,
    /// A random number, which `Policy::Random` is drawn by.
    pub random: u64,
}

/// What `NUMPOOL.CONFIG` changes of a pool's settings; what is absent stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Life of a lease that names none; 0 = it has no end.
    pub lease: Option<Millis>,
    /// Rest after a call; 0 = none.
    pub cooldown: Option<Millis>,
    /// Life of a registration that names none; 0 = it has no end.
    pub regttl: Option<Millis>,
    /// How a call picks that does not say.
    pub pick: Option<Policy>,
    /// Length of the event stream; 0 = there is none.
    pub events: Option<u32>,
}
