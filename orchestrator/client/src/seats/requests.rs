//! Requests to a show.

/// A buyer's request for seats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HoldRequest<'a> {
    /// The buyer; limits per user apply to this name.
    pub user: &'a str,
    /// Seats, 1 to 500.
    pub count: u32,
    /// Time to live of the hold, in milliseconds.
    pub ttl_ms: u64,
    /// How the seats are chosen.
    pub choice: SeatChoice<'a>,
    /// Name of the hold. If the answer was lost, the same request under the same name returns the same hold. Without a
    /// name the server generates one.
    pub token: Option<&'a str>,
    /// Token of the buyer's live hold that ends in the same step; not of a wait.
    pub replace: Option<&'a str>,
    /// Sold seats of the buyer that will be given back when the hold is sold; limits do not count them. Not of a wait.
    pub exchange: &'a [String],
}

/// How best seating chooses seats; the default is the server's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SeatChoice<'a> {
    /// Only seats of this tier; `None` for any tier.
    pub tier: Option<&'a str>,
    /// Only seats in these areas; all areas if empty.
    pub areas: &'a [String],
    /// `PREFER`, `REQUIRE`, `AREA` or, except for a wait, `IGNORE`; `None` for `PREFER`.
    pub adjacent: Option<&'a str>,
    /// `AVOID`, `ALLOW` or `FORBID`; `None` for `AVOID`.
    pub orphans: Option<&'a str>,
    /// Flags whose seats may be taken too.
    pub flags: &'a [String],
    /// Seats of the party that must have a flag: their number, and the flag. The other seats have no flag that `flags`
    /// does not name.
    pub needs: &'a [(u32, String)],
    /// Flags whose seats come first, at most four.
    pub wishes: &'a [String],
    /// Only seats of the block of this name; `None` for free seats.
    pub from: Option<&'a str>,
}

impl SeatChoice<'_> {
    pub(super) fn write(&self, command: &mut redis::Cmd) {
        let options = [
            ("TIER", self.tier),
            ("ADJACENT", self.adjacent),
            ("ORPHANS", self.orphans),
            ("FROM", self.from),
        ];
        with_options(command, &options);
        for (option, names) in [("AREAS", self.areas), ("FLAGS", self.flags)] {
            if !names.is_empty() {
                command.arg(option).arg(names.len()).arg(names);
            }
        }
        for (count, flag) in self.needs {
            command.arg("NEED").arg(count).arg(flag);
        }
        for flag in self.wishes {
            command.arg("WISH").arg(flag);
        }
    }
}

/// Conditions of [`super::SeatStore::list`]; `None` for no condition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListFilter<'a> {
    /// Only seats in this state: `free`, `held`, `sold`, `blocked` or `queued`.
    pub state: Option<&'a str>,
    /// Only seats of this tier, or holds and sales with one.
    pub tier: Option<&'a str>,
    /// Only seats of this area, or holds and sales with one.
    pub area: Option<&'a str>,
    /// Only seats, holds and sales of this user.
    pub user: Option<&'a str>,
    /// Only seats of this block, also those held or sold from it, or holds and sales with one.
    pub block: Option<&'a str>,
}

/// A request for offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FindRequest<'a> {
    /// Seats, 1 to 500.
    pub count: u32,
    /// How the seats are chosen.
    pub choice: SeatChoice<'a>,
    /// The most offers, 1 to 20.
    pub best: u32,
}

/// A request to wait for seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitRequest<'a> {
    /// The hold that is wanted; its time to live is that of the wait.
    pub hold: HoldRequest<'a>,
    /// Time to live of the offered hold, in milliseconds.
    pub offer_ms: u64,
    /// The highest priority is served first.
    pub priority: i32,
}

/// A request for seats that the buyer has chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PickRequest<'a> {
    /// The buyer; limits per user apply to this name.
    pub user: &'a str,
    /// Time to live of the hold, in milliseconds.
    pub ttl_ms: u64,
    /// Ids of the seats, 1 to 500.
    pub seats: &'a [String],
    /// Whether the pick may leave a single free seat, `ALLOW` or `FORBID`; `None` for the rule of the show.
    pub orphans: Option<&'a str>,
    /// The block of which the seats are; `None` for free seats.
    pub from: Option<&'a str>,
    /// Name of the hold, as in [`HoldRequest`].
    pub token: Option<&'a str>,
    /// Whether the seats join the live hold of the token, if there is one.
    pub add: bool,
    /// Sold seats of the buyer that will be given back when the hold is sold; limits do not count them.
    pub exchange: &'a [String],
}

/// The sale of a hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sale<'a> {
    /// Token of the hold.
    pub token: &'a str,
    /// Only if the hold is of this user; `None` for any user.
    pub user: Option<&'a str>,
    /// Order under which the seats are sold.
    pub order: Option<&'a str>,
    /// Seats that the buyer gives back in the same step: their order, and their ids.
    pub exchange: Option<(&'a str, &'a [String])>,
}

/// Adds what a hold and a wait have in common.
pub(super) fn hold_command(mut command: redis::Cmd, request: &HoldRequest<'_>) -> redis::Cmd {
    command.arg(request.user).arg(request.count).arg("TTL").arg(request.ttl_ms);
    request.choice.write(&mut command);
    with_options(&mut command, &[("TOKEN", request.token), ("REPLACE", request.replace)]);
    with_exchange(&mut command, request.exchange);
    command
}

/// Adds the seats that are given back, if there are some.
pub(super) fn with_exchange(command: &mut redis::Cmd, seats: &[String]) {
    if !seats.is_empty() {
        command.arg("EXCHANGE").arg(seats.len()).arg(seats);
    }
}

/// Adds the options that have a value.
pub(super) fn with_options(command: &mut redis::Cmd, options: &[(&str, Option<&str>)]) {
    for (option, value) in options {
        if let Some(value) = value {
            command.arg(option).arg(value);
        }
    }
}
