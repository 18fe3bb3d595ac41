//! Requests to a pool, with parsed arguments. docs/numbers.md describes the commands.

pub use super::model::causes::Rule;
pub use super::model::settings::{Cap, DAY, Days, Policy};
use super::model::sliced::Ends;
use super::number::Number;
use crate::shared::Millis;
use crate::shared::token::TokenChoice;

/// A request that may change a pool.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// `NUMPOOL.ADD`.
    Add(&'a [Number]),
    /// `NUMPOOL.DEL`.
    Del {
        /// Which.
        numbers: &'a [Number],
        /// Whether a number that carries a call is deleted when the call ends, instead of at once.
        drain: bool,
    },
    /// `NUMPOOL.REG`.
    Reg {
        /// Which.
        numbers: &'a [Number],
        /// Time to live of the registration, in milliseconds; the pool's default if absent.
        ttl: Option<Millis>,
        /// Who registers them.
        switch: Option<&'a [u8]>,
        /// Whether the reply names the numbers that are not in the pool.
        missing: bool,
    },
    /// `NUMPOOL.UNREG` of numbers.
    Unreg {
        /// Which.
        numbers: &'a [Number],
        /// Whether the reply names the numbers that are not in the pool.
        missing: bool,
    },
    /// `NUMPOOL.SUSPEND`.
    Suspend {
        /// Which.
        numbers: &'a [Number],
        /// Why.
        cause: Option<&'a [u8]>,
        /// For how long, in milliseconds; if absent, until they are resumed.
        ttl: Option<Millis>,
        /// Whether the reply names the numbers that are not in the pool.
        missing: bool,
    },
    /// `NUMPOOL.RESUME`.
    Resume {
        /// Which.
        numbers: &'a [Number],
        /// Whether the reply names the numbers that are not in the pool.
        missing: bool,
    },
    /// `NUMPOOL.CALL`.
    Call(Call<'a>),
    /// `NUMPOOL.HANGUP`.
    HangUp {
        /// Which.
        number: Number,
        /// Only this call.
        lease: Option<&'a [u8]>,
        /// Cool-down after the call, in milliseconds; the pool's default if absent.
        cooldown: Option<Millis>,
        /// Why the call ended.
        cause: Option<&'a [u8]>,
    },
    /// Ends a call whose caller never heard of it. The call does not count for the caps, and the number does not cool
    /// down.
    TakeBack {
        /// Which.
        number: Number,
        /// Its lease; nothing happens if this is not the live one.
        lease: &'a [u8],
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
    /// `NUMPOOL.BEAT`.
    Beat {
        /// Who is alive.
        switch: &'a [u8],
        /// For how long from now, in milliseconds.
        ttl: Millis,
    },
    /// A request about a switch.
    OfSwitch(OfSwitch<'a>),
    /// `NUMPOOL.CAPS`.
    Caps {
        /// Which.
        number: Number,
        /// How many calls it may begin within each of some windows; none for those of the pool.
        caps: &'a [Cap],
    },
    /// `NUMPOOL.CONFIG`.
    Configure(Changes),
    /// `NUMPOOL.CAUSE`.
    Cause {
        /// The word of the cause.
        word: &'a [u8],
        /// The rule; its `cooldown` is 0 for none.
        rule: Rule,
    },
}

impl Request<'_> {
    /// The numbers that the request names.
    pub(super) fn named(&self) -> &[Number] {
        match self {
            Self::Add(numbers)
            | Self::Unreg { numbers, .. }
            | Self::Suspend { numbers, .. }
            | Self::Resume { numbers, .. }
            | Self::Del { numbers, .. }
            | Self::Reg { numbers, .. } => numbers,
            Self::HangUp { number, .. }
            | Self::TakeBack { number, .. }
            | Self::Renew { number, .. }
            | Self::Caps { number, .. } => std::slice::from_ref(number),
            Self::Call(call) => call.number.as_slice(),
            Self::Beat { .. } | Self::OfSwitch(_) | Self::Configure(_) | Self::Cause { .. } => &[],
        }
    }
}

/// A request about a switch.
#[derive(Clone, Copy, Debug)]
pub enum OfSwitch<'a> {
    /// `NUMPOOL.UNREG` of all that the switch registered.
    Unreg(&'a [u8]),
    /// `NUMPOOL.RECONCILE`.
    Reconcile {
        /// Whose leases; if absent, those that have neither a switch nor a holder.
        switch: Option<&'a [u8]>,
        /// Only leases that were granted before this time.
        before: Option<Millis>,
        /// Tokens of the calls that the switch still carries.
        leases: &'a [&'a [u8]],
    },
}

impl<'a> OfSwitch<'a> {
    /// What the request ends, and of which switch.
    pub(super) fn ends(&self) -> (Ends, &'a [u8]) {
        match self {
            Self::Unreg(switch) => (Ends::Registrations, switch),
            Self::Reconcile { switch: Some(switch), .. } => (Ends::Leases, switch),
            Self::Reconcile { switch: None, .. } => (Ends::Unswitched, b""),
        }
    }
}

/// The most prefixes that a call names.
pub const MAX_PREFIXES: usize = 16;

/// `NUMPOOL.CALL key [number] ...`
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// This number; if absent, one is picked.
    pub number: Option<Number>,
    /// Time to live of the lease, in milliseconds; the pool's default if absent.
    pub ttl: Option<Millis>,
    /// Whether the lease has no deadline, even if the pool has a default: something else will end the call.
    pub endless: bool,
    /// Who holds the number instead of a switch.
    pub holder: Option<&'a [u8]>,
    /// Name of the lease.
    pub lease: TokenChoice<'a>,
    /// The switch that carries the call; if absent, the switch that registered the number.
    pub switch: Option<&'a [u8]>,
    /// The called peer.
    pub peer: Option<&'a [u8]>,
    /// Prefixes of the number, tried in this order; none for any number.
    pub prefixes: &'a [Number],
    /// The policy of the choice; the pool's default if absent.
    pub pick: Option<Policy>,
    /// A random number for `Policy::Random`.
    pub random: u64,
}

/// Changes of settings by `NUMPOOL.CONFIG`. Absent fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// How many calls a number may begin within each of some windows.
    pub caps: Option<Vec<Cap>>,
    /// How many calls the pool may begin within a window; with a count of 0 as many as there are.
    pub rate: Option<Cap>,
    /// Of how many peers the pool remembers the last number.
    pub peers: Option<i64>,
    /// How long it does; 0 = for ever.
    pub peerttl: Option<Millis>,
    /// The calendar days that caps count.
    pub days: Option<Days>,
}
