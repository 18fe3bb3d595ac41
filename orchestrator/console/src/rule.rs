//! Rules of alerts, as people write them in the settings.

use std::str::FromStr;
use std::time::Duration;

use allot_runtime::settings::Span;

/// The time of a rule that names none: some checks, so that one value alone tells nobody.
const TIME: Duration = Duration::from_secs(10);

/// A rule: `WHAT [KEY] > NUMBER [for TIME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub(crate) text: String,
    pub(crate) measure: Measure,
    /// Whether it is met above the limit, and not below.
    pub(crate) above: bool,
    pub(crate) limit: f64,
    /// Time for which it must be met before an alert begins, and not be met before the alert ends.
    pub(crate) time: Duration,
}

/// What a rule measures.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Measure {
    /// How often a second.
    Rate(Rate),
    /// The share of seats sold, numbers in a call or room in use, in per cent.
    Share(Share, String),
    /// Conferences that wait for recovery while none is recovered.
    Unrecovered,
    /// 1 while Redis does not answer.
    Away,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rate {
    Holds,
    Calls,
    Recoveries,
    Refusals,
}

/// What is a part of a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Share {
    Sold,
    Busy,
    Used,
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("'{text}': {what}; write a rule as 'refusals > 5/s for 30s'");
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let mut key = || words.next().map(str::to_owned).ok_or_else(|| wrong("the key is missing"));
        let (measure, unit) = match name {
            "holds" => (Measure::Rate(Rate::Holds), "/s"),
            "calls" => (Measure::Rate(Rate::Calls), "/s"),
            "recoveries" => (Measure::Rate(Rate::Recoveries), "/s"),
            "refusals" => (Measure::Rate(Rate::Refusals), "/s"),
            "sold" => (Measure::Share(Share::Sold, key()?), "%"),
            "busy" => (Measure::Share(Share::Busy, key()?), "%"),
            "used" => (Measure::Share(Share::Used, key()?), "%"),
            "unrecovered" => (Measure::Unrecovered, ""),
            "away" => (Measure::Away, ""),
            _ => return Err(wrong("it begins with no measure that there is")),
        };
        let above = match words.next() {
            Some(">") => true,
            Some("<") => false,
            _ => return Err(wrong("> or < is missing")),
        };
        let limit = words
            .next()
            .and_then(|word| word.strip_suffix(unit)?.parse().ok())
            .filter(|limit: &f64| limit.is_finite());
        let limit = limit.ok_or_else(|| wrong(&format!("the limit is no number with '{unit}'")))?;
        let time = match (words.next(), words.next(), words.next()) {
            (None, ..) => TIME,
            (Some("for"), Some(time), None) => time.parse::<Span>().map_err(|error| wrong(&error))?.0,
            _ => return Err(wrong("after the limit there can be a time, as 'for 30s'")),
        };
        Ok(Self { text: text.to_owned(), measure, above, limit, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_people_write_them() {
        let rule: Rule = "busy {sales}:pool > 90% for 2m".parse().unwrap();
        assert_eq!(rule.measure, Measure::Share(Share::Busy, "{sales}:pool".to_owned()));
        assert_eq!((rule.above, rule.limit, rule.time), (true, 90.0, Duration::from_secs(120)));
        let rule: Rule = "calls < 0.5/s".parse().unwrap();
        assert_eq!((rule.above, rule.time), (false, TIME));
        assert_eq!("unrecovered > 0 for 30s".parse::<Rule>().unwrap().measure, Measure::Unrecovered);
        for (wrong, why) in [
            ("", "no measure"),
            ("sells > 5/s", "no measure"),
            ("sold > 90%", "> or <"),
            ("sold", "key"),
            ("refusals 5/s", "> or <"),
            ("refusals > 5", "'/s'"),
            ("refusals > many/s", "'/s'"),
            ("refusals > nan/s", "'/s'"),
            ("refusals > inf/s", "'/s'"),
            ("refusals > 5/s 30s", "for 30s"),
            ("refusals > 5/s for long", "'long'"),
        ] {
            let refused = wrong.parse::<Rule>().unwrap_err();
            assert!(refused.contains(why), "{wrong}: {refused}");
        }
    }
}
