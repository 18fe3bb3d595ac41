//! The plan of a show as people write it: JSON ("The plan" in docs/seats.md), with errors that name the place.

use crate::shared::MAX_IDENTIFIER;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::printable;
use crate::shared::token::MAX_TTL;
use crate::{fields, invariant, words};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A point of the plan, `[x, y]`; also the way from one point to another.
pub type Point = [f32; 2];

/// Limits of the format. A plan beyond one of them is refused.
pub mod max {
    /// Areas of a show.
    pub const AREAS: usize = 4096;
    /// Positions (seats and breaks) of a row.
    pub const POSITIONS: usize = 4096;
    /// Seats of a show.
    pub const SEATS: usize = 2_000_000;
    /// The most positions of a show. This bounds the memory of rows that consist mostly of breaks.
    pub const ALL_POSITIONS: usize = 16_000_000;
    /// Different flags of a show, which are kept as bits.
    pub const FLAGS: usize = 64;
    /// Different tiers of a show.
    pub const TIERS: usize = 4096;
    /// Places of a user on the waiting list.
    pub const WAITS_PER_USER: u32 = 100;
}

words! {
    /// In which order an area's seats are taken: by rank of the row and, within a row, from one side or from the middle; or
    /// by nearness to a point.
    #[derive(Default, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Rule {
        /// Left to right.
        #[default]
        Ltr = 0 => "ltr",
        /// Right to left.
        Rtl = 1 => "rtl",
        /// Nearest the middle of the row first, of two equally near the left one.
        Center = 2 => "center",
        /// Nearest the focus of the area first, over all its rows; of equally near ones the better row, then the left one.
        Focus = 3 => "focus",
    }
}

fields! {
    /// Limits of each user. 0 is no limit.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Limits {
        /// Seats a user may hold and have bought, together.
        #[serde(default)]
        pub seats_per_user: u32,
        /// Live holds of a user.
        #[serde(default = "one")]
        pub holds_per_user: u32,
        /// Longest life of a hold, extensions included, in milliseconds; at most ten years.
        #[serde(default)]
        pub max_hold_ms: u64,
        /// Places of a user on the waiting list, at most 100; 0 is 100.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        pub waits_per_user: u32,
        /// Whether `SEAT.PICK` may leave a single seat, unless the request says so itself.
        #[serde(default, skip_serializing_if = "PickOrphans::is_default")]
        pub pick_orphans: PickOrphans,
    }
}

words! {
    /// Whether picked seats may leave a single seat beside them.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum PickOrphans {
        /// They may.
        #[default]
        Allow = 0 => "allow",
        /// They may not, unless a run has one seat more than are picked.
        Forbid = 1 => "forbid",
        /// As `forbid`.
        Avoid = 2 => "avoid",
    }
}

impl PickOrphans {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            seats_per_user: 0,
            holds_per_user: 1,
            max_hold_ms: 0,
            waits_per_user: 1,
            pick_orphans: PickOrphans::Allow,
        }
    }
}

/// A show: areas, and limits of its users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// At least one.
    pub areas: Vec<PlanArea>,
    /// Limits of each user.
    #[serde(default)]
    pub limits: Limits,
    /// How many events the stream `<key>:evt` keeps; 0 (the default) keeps no stream.
    #[serde(default)]
    pub events: u32,
    /// The middle of what all look at, for areas without a focus of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<Point>,
}

impl Limits {
    /// Checks that the limits are in range.
    ///
    /// # Errors
    /// `ERR plan: limits.max_hold_ms: ...` for more than ten years, and as much for `waits_per_user`.
    pub(in crate::seat) fn check(self) -> Result<(), Refusal> {
        if self.waits_per_user > max::WAITS_PER_USER {
            let what = format!("is more than {}", max::WAITS_PER_USER);
            return Err(wrong("limits.waits_per_user", &what));
        }
        if self.max_hold_ms <= MAX_TTL as u64 {
            return Ok(());
        }
        Err(wrong("limits.max_hold_ms", &format!("is more than {MAX_TTL} ms, which are ten years")))
    }
}

impl Plan {
    /// The plan as JSON.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string(self);
        invariant!(json.is_ok(), "a plan, which is made of strings and numbers only, can be written as JSON");
        json.unwrap_or_default()
    }
}

/// An area: rows that share a priority and an order rule, or standing places.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanArea {
    /// First part of its seats' ids.
    pub id: String,
    /// Name for people; the id if absent.
    #[serde(default)]
    pub name: Option<String>,
    /// The lowest is best; areas may share one.
    #[serde(default = "first")]
    pub priority: i32,
    /// Order within a row. It plays no part in a standing area.
    #[serde(default)]
    pub rule: Rule,
    /// Number of places of a standing area, which has no rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<u32>,
    /// Tier of all places of a standing area; other areas have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The point to which the rule `focus` is near; that of the show if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<Point>,
    /// At least one, and none in a standing area.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<PlanRow>,
}

fn first() -> i32 {
    1
}

/// A row: its seats and breaks in physical order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRow {
    /// Second part of its seats' ids.
    pub label: String,
    /// 1 is nearest the stage; of equal ranks the earlier in the plan comes first.
    pub rank: i32,
    /// The tier of seats without a tier of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Where the first position is, in any unit; the next ones follow by `step`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Point>,
    /// The way from one position to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Point>,
    /// Where each position is, of a row that is no straight line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<Vec<Point>>,
    /// At least one seat.
    pub seats: PlanSeats,
}

/// The seats of a row in either notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanSeats {
    /// `1-12,|,13-24`: ranges and single labels, `|` a break.
    Short(String),
    /// One entry a position, `None` a break.
    List(Vec<Option<PlanSeat>>),
}

/// A seat of the long notation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSeat {
    /// Last part of the seat's id, unless the seat has an id of its own.
    pub label: String,
    /// The seat's own id, 1 to 256 bytes, unique in the show. It replaces `area-row-label`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Tier, if it is not that of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Flags. A seat with a flag is sold only to requests that name the flag.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

impl Serialize for PlanSeats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Short(text) => serializer.serialize_str(text),
            Self::List(seats) => seats.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PlanSeats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherNotation;

        impl<'de> Visitor<'de> for EitherNotation {
            type Value = PlanSeats;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of seats and nulls, or a text like \"1-12,|,13-24\"")
            }

            fn visit_str<E>(self, text: &str) -> Result<PlanSeats, E> {
                Ok(PlanSeats::Short(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PlanSeats, A::Error> {
                let mut seats = Vec::new();
                while let Some(seat) = list.next_element()? {
                    if seats.len() == max::POSITIONS {
                        return Err(serde::de::Error::custom("the row has more than 4096 positions"));
                    }
                    seats.push(seat);
                }
                Ok(PlanSeats::List(seats))
            }
        }

        deserializer.deserialize_any(EitherNotation)
    }
}

/// Changes by `SEAT.ALTER`. Absent fields stay unchanged.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanPart {
    /// Areas by id.
    #[serde(default)]
    pub areas: Vec<PartArea>,
    /// New areas, which follow the others.
    #[serde(default)]
    pub add_areas: Vec<PlanArea>,
    /// Ids of seats that become breaks. A row without seats is removed.
    #[serde(default)]
    pub remove_seats: Vec<String>,
    /// Limits to change.
    #[serde(default)]
    pub limits: PartLimits,
    /// Length of the event stream, 0 switches it off.
    #[serde(default)]
    pub events: Option<u32>,
    /// The new focus of the show.
    #[serde(default)]
    pub focus: Option<Point>,
}

impl PlanPart {
    /// Whether the part may change areas, rows or seats, and not only limits, names, priorities and order rules.
    pub(in crate::seat) fn changes_seats(&self) -> bool {
        let changes_rows = |area: &PartArea| {
            area.tier.is_some()
                || area.standing.is_some()
                || !(area.rows.is_empty() && area.put_rows.is_empty() && area.remove_rows.is_empty())
        };
        !self.add_areas.is_empty() || !self.remove_seats.is_empty() || self.areas.iter().any(changes_rows)
    }
}

/// Changes of limits. Absent fields stay unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields are those of Limits")]
pub struct PartLimits {
    pub seats_per_user: Option<u32>,
    pub holds_per_user: Option<u32>,
    pub max_hold_ms: Option<u64>,
    pub waits_per_user: Option<u32>,
    pub pick_orphans: Option<PickOrphans>,
}

/// Changes of one area, in the order of these fields from `remove_rows` on. Absent fields stay unchanged.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields without a comment are those of PlanArea")]
pub struct PartArea {
    pub id: String,
    pub name: Option<String>,
    pub priority: Option<i32>,
    pub rule: Option<Rule>,
    pub focus: Option<Point>,
    /// Labels of rows to remove.
    #[serde(default)]
    pub remove_rows: Vec<String>,
    /// Rows to add, or to put in the place of the row with the same label.
    #[serde(default)]
    pub put_rows: Vec<PlanRow>,
    /// The new number of places of a standing area. Fewer places remove the last ones.
    pub standing: Option<u32>,
    pub tier: Option<String>,
    #[serde(default)]
    pub rows: Vec<PartRow>,
}

/// A new rank for the rows with that label, or new tiers: for the listed seats, or for all.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartRow {
    /// Label of the row.
    pub label: String,
    /// The new rank.
    pub rank: Option<i32>,
    /// Tier of the seats without a tier of their own.
    pub tier: Option<String>,
    /// The seats whose tiers change; all if absent.
    pub seats: Option<PlanSeats>,
}

/// Parses a plan, or part of one. Only the JSON shape is checked here; `Venue::build` checks the rest.
///
/// # Errors
/// `ERR plan: <place>: <what is wrong>`, the place as a path such as `areas[0].rows[3].seats[2].tier`.
pub fn parse<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, Refusal> {
    if let Ok(value) = serde_json::from_slice(json) {
        return Ok(value);
    }
    // To follow the path takes as long as to parse, so the path is only followed for an error.
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        wrong(&path, &error.inner().to_string())
    })?;
    reader.end().map_err(|error| wrong(".", &error.to_string()))?;
    Ok(value)
}

/// A refusal of a plan, with the place and the fault. Texts of the client are escaped.
pub fn wrong(place: &str, what: &str) -> Refusal {
    let place =
        if place == "." || place.is_empty() { String::new() } else { format!("{}: ", printable(place)) };
    Refusal::new(Code::Err, format!("plan: {place}{}", printable(what)))
}

/// Checks that a name has 1 to 256 bytes. `place` is its place in the plan.
pub(in crate::seat) fn identifier(place: impl Fn() -> String, name: &str) -> Result<(), Refusal> {
    match name.len() {
        0 => Err(wrong(&place(), "is empty")),
        1..=MAX_IDENTIFIER => Ok(()),
        len => Err(wrong(&place(), &format!("has {len} bytes, more than {MAX_IDENTIFIER}"))),
    }
}
