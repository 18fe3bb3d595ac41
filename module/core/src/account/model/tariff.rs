//! Tariffs: a flat price covers a quota of instructions per month; steps price each instruction beyond. All
//! arithmetic is exact: prices are whole billionths.

use crate::fields;
use crate::shared::codec::{Damaged, LAST_COUNT, Reader, Writer, ensure};
use crate::shared::field::Field;
use std::fmt;

/// Decimal places of a price.
const DIGITS: usize = 9;
/// One, in billionths.
const ONE: i128 = 1_000_000_000;
/// The most steps of a tariff.
pub const MAX_STEPS: usize = 16;
/// The limit of all counts of instructions.
pub const MAX_COUNT: u64 = LAST_COUNT;

/// An amount of money, in billionths of its unit; never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(pub i128);

impl Amount {
    /// The greatest price.
    pub const MAX_PRICE: Self = Self(ONE * ONE - 1);

    /// Whether the amount is a price: less than a billion.
    pub(in crate::account) fn is_price(self) -> bool {
        (0..=Self::MAX_PRICE.0).contains(&self.0)
    }

    /// Parses a price: digits with at most nine decimal places, less than a billion. `None` for anything else.
    pub fn parse_price(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(whole, DIGITS) || !digits(part, DIGITS) {
            return None;
        }
        let part: i128 = format!("{part:0<DIGITS$}").parse().ok()?;
        Some(Self(whole.parse::<i128>().ok()? * ONE + part))
    }
}

impl fmt::Display for Amount {
    /// Decimal, without trailing zeros: `12.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / ONE, self.0 % ONE);
        if part == 0 {
            return write!(f, "{whole}");
        }
        let part = format!("{part:0DIGITS$}");
        write!(f, "{whole}.{}", part.trim_end_matches('0'))
    }
}

/// Billionths.
impl Field for Amount {
    fn encode(&self, out: &mut Writer) {
        self.0.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        i128::decode(reader).map(Self)
    }
}

fields! {
    /// A price step beyond the flat price.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Step {
        /// The number of instructions in the month at which the step ends. The last step has no end.
        pub upto: u64,
        /// Price of an instruction.
        pub price: Amount,
    }

    /// The prices of an account.
    #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Tariff {
        /// Instructions a month at the flat price.
        pub quota: u64,
        /// Steps beyond the quota, in ascending order of `upto`.
        pub steps: Vec<Step>,
    } checked by Tariff::is_sound;
}

impl Tariff {
    fn is_sound(&self) -> Result<(), Damaged> {
        let prices = self.steps.iter().all(|step| step.price.is_price());
        ensure(prices && self.fault().is_none(), "a tariff is not valid")
    }

    /// Why the tariff is not valid: a step that does not rise, too many steps, or a quota that is too large. `None`
    /// if it is valid.
    pub fn fault(&self) -> Option<&'static str> {
        let mut from = self.quota;
        if self.quota > MAX_COUNT || self.steps.len() > MAX_STEPS {
            return Some("a quota is below 2^53, and there are at most 16 steps");
        }
        for step in &self.steps {
            if step.upto <= from || step.upto > MAX_COUNT {
                return Some("each step must end beyond the one before it, the first beyond the quota");
            }
            from = step.upto;
        }
        None
    }

    /// The cost of so many instructions of a month beyond the flat price, if all have these prices. O(steps).
    pub fn cost(&self, used: u64) -> Amount {
        let mut from = self.quota;
        let mut cost = 0i128;
        for (place, step) in self.steps.iter().enumerate() {
            let last = place + 1 == self.steps.len();
            let upto = if last { used.max(from) } else { step.upto.min(used.max(from)) };
            cost += i128::from(upto - from) * step.price.0;
            from = upto;
        }
        Amount(cost)
    }

    /// The step of the last of so many instructions; 0 within the flat price.
    pub fn step(&self, used: u64) -> usize {
        if used <= self.quota {
            return 0;
        }
        let beyond = self.steps.iter().position(|step| used <= step.upto);
        beyond.unwrap_or(self.steps.len().saturating_sub(1)) + usize::from(!self.steps.is_empty())
    }

    /// The price of the next instruction after so many.
    pub fn next_price(&self, used: u64) -> Amount {
        let step = self.step(used.saturating_add(1));
        step.checked_sub(1).and_then(|step| self.steps.get(step)).map_or(Amount(0), |step| step.price)
    }

    /// The number of instructions at which the price of the next instruction after so many ends; `None` for the last
    /// price, which has no end.
    pub fn end_of_price(&self, used: u64) -> Option<u64> {
        if used < self.quota {
            return Some(self.quota);
        }
        let last = self.steps.len().saturating_sub(1);
        self.steps.iter().take(last).map(|step| step.upto).find(|&upto| upto > used)
    }

    /// The prices of the instructions after so many, up to `limit` instructions in the month, and how many of them have
    /// each price. With a tariff without steps, no instruction costs anything. O(steps).
    pub fn rooms(&self, used: u64, limit: u64) -> impl Iterator<Item = (Amount, u64)> {
        let last = self.steps.len().saturating_sub(1);
        let end = move |place: usize, upto: u64| if place == last { limit } else { upto.min(limit) };
        let steps = self.steps.iter().enumerate();
        let steps = steps.map(move |(place, step)| (step.price, end(place, step.upto)));
        let flat = (Amount(0), if self.steps.is_empty() { limit } else { self.quota.min(limit) });
        std::iter::once(flat).chain(steps).scan(used, |from, (price, upto)| {
            let room = upto.saturating_sub(*from);
            *from = upto.max(*from);
            Some((price, room))
        })
    }

    /// Instructions left at the flat price after so many.
    pub fn left(&self, used: u64) -> u64 {
        self.quota.saturating_sub(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(text: &str) -> Amount {
        Amount::parse_price(text.as_bytes()).unwrap()
    }

    fn tariff() -> Tariff {
        let steps = [(120, "0.1"), (150, "0.25"), (200, "1")];
        let steps = steps.map(|(upto, text)| Step { upto, price: price(text) }).to_vec();
        Tariff { quota: 100, steps }
    }

    #[test]
    fn prices_are_exact_decimals() {
        for text in ["0", "1", "0.1", "12.5", "999999999.999999999"] {
            assert_eq!(price(text).to_string(), text);
        }
        assert_eq!(price("1.50").to_string(), "1.5");
        for text in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1.0000000001", "1000000000", " 1", "0x1"] {
            assert_eq!(Amount::parse_price(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn cost_goes_by_steps_and_the_last_price_holds() {
        let tariff = tariff();
        for (used, cost, step) in [
            (0, "0", 0),
            (100, "0", 0),
            (101, "0.1", 1),
            (120, "2", 1),
            (121, "2.25", 2),
            (150, "9.5", 2),
            (250, "109.5", 3),
        ] {
            assert_eq!((tariff.cost(used).to_string().as_str(), tariff.step(used)), (cost, step), "{used}");
        }
        assert_eq!(tariff.next_price(99), Amount(0));
        assert_eq!(tariff.next_price(100), price("0.1"));
        assert_eq!(tariff.next_price(120), price("0.25"));
        assert_eq!(tariff.next_price(9999), price("1"));
        let ends = [0, 99, 100, 119, 120, 149, 150, 999].map(|used| tariff.end_of_price(used));
        let (flat, first, second) = (Some(100), Some(120), Some(150));
        assert_eq!(ends, [flat, flat, first, first, second, second, None, None]);
        assert_eq!(Tariff { quota: 5, steps: vec![] }.end_of_price(5), None);
        assert_eq!(Tariff { quota: 5, steps: vec![] }.cost(99), Amount(0));
        assert_eq!(Tariff { quota: 5, steps: vec![] }.step(99), 0);
    }

    #[test]
    fn rooms_are_the_instructions_of_each_price_and_cost_as_much() {
        let tariff = tariff();
        for used in [0, 99, 100, 110, 150, 190, 300] {
            let all: Vec<(Amount, u64)> = tariff.rooms(used, 400).collect();
            assert_eq!(all.iter().map(|(_, room)| room).sum::<u64>(), 400 - used);
            let cost: i128 = all.iter().map(|&(price, room)| price.0 * i128::from(room)).sum();
            assert_eq!(cost, tariff.cost(400).0 - tariff.cost(used).0, "{used}");
        }
        let rooms: Vec<u64> = tariff.rooms(110, 130).map(|(_, room)| room).collect();
        assert_eq!(rooms, [0, 10, 10, 0]);
        let free = Tariff { quota: 5, steps: vec![] };
        assert_eq!(free.rooms(7, 130).collect::<Vec<_>>(), [(Amount(0), 123)]);
    }

    #[test]
    fn steps_must_rise() {
        let account = |upto| Step { upto, price: price("1") };
        assert!(Tariff { quota: 100, steps: vec![account(100)] }.fault().is_some());
        assert!(Tariff { quota: 100, steps: vec![account(101), account(101)] }.fault().is_some());
        assert_eq!(Tariff { quota: 100, steps: vec![account(101), account(102)] }.fault(), None);
    }
}
