//! Labels of the seats of a row. Regular labels are kept as progressions (`1, 2, 3`, `24, 22, 20`).

use super::plan::max;
use crate::ensure;
use crate::shared::invariant::Checked;
use crate::shared::invariant::Expected;

/// Labels of the positions of a row, in physical order; equal rows share one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    runs: Box<[Run]>,
    /// Positions whose label is text, by label: finding one takes O(log n).
    texts: Box<[u16]>,
}

/// Seats on neighbouring positions whose labels follow one rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run {
    position: u16,
    count: u16,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// `first`, `first + step`, ...; all are greater than or equal to 0.
    Numbers { first: u32, step: i32 },
    /// One label that is no plain number.
    Text(Box<str>),
}

impl Run {
    /// The labels of a progression by position; empty for a text.
    fn numbers(&self) -> impl DoubleEndedIterator<Item = i64> + Clone {
        let (first, step, count) = match self.kind {
            Kind::Numbers { first, step } => (first, step, self.count),
            Kind::Text(_) => (0, 0, 0),
        };
        (0..count).map(move |place| number_at(first, step, place))
    }
}

/// The label at a position of a progression.
fn number_at(first: u32, step: i32, place: u16) -> i64 {
    i64::from(first) + i64::from(step) * i64::from(place)
}

/// A label as the number it spells: decimal, no sign, no leading zero, below 10^9.
pub(super) fn as_number(label: &str) -> Option<u32> {
    let plain = label.len() <= 9
        && label.bytes().all(|byte| byte.is_ascii_digit())
        && (label == "0" || !label.starts_with('0'));
    if plain { label.parse().ok() } else { None }
}

impl Labels {
    /// Labels of positions, `None` for a break; at most 4096.
    pub fn new<'a>(labels: impl IntoIterator<Item = Option<&'a str>>) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for (position, label) in labels.into_iter().enumerate() {
            let Some(label) = label else { continue };
            let position = position as u16;
            let number = as_number(label);
            if let (Some(number), Some(run)) = (number, runs.last_mut())
                && run.position + run.count == position
                && let Kind::Numbers { first, step } = &mut run.kind
            {
                let difference = i64::from(number) - i64::from(*first);
                if run.count == 1 && difference != 0 && difference.abs() < 1000 {
                    *step = difference as i32;
                }
                if *step != 0 && difference == i64::from(*step) * i64::from(run.count) {
                    run.count += 1;
                    continue;
                }
                // A progression of one label has step 0, so that equal rows are equal values.
                if run.count == 1 {
                    *step = 0;
                }
            }
            let kind =
                number.map_or_else(|| Kind::Text(label.into()), |first| Kind::Numbers { first, step: 0 });
            runs.push(Run { position, count: 1, kind });
        }
        let mut texts: Vec<(&str, u16)> = runs
            .iter()
            .filter_map(|run| match &run.kind {
                Kind::Text(text) => Some((&**text, run.position)),
                Kind::Numbers { .. } => None,
            })
            .collect();
        texts.sort_unstable();
        let texts = texts.into_iter().map(|(_, position)| position).collect();
        Self { runs: runs.into(), texts }
    }

    /// The labels `first`, `first + 1`, ... of `count` positions, 1 to 4096.
    pub(super) fn numbers(first: u32, count: u16) -> Self {
        let step = i32::from(count > 1);
        let run = Run { position: 0, count, kind: Kind::Numbers { first, step } };
        Self { runs: Box::new([run]), texts: Box::default() }
    }

    /// Appends the label of the seat at `position`; nothing for a break. O(log runs).
    pub fn write(&self, position: u16, out: &mut String) {
        let Some(run) = self.run_at(position) else { return };
        match &run.kind {
            Kind::Text(text) => out.push_str(text),
            Kind::Numbers { first, step } => {
                let number = number_at(*first, *step, position - run.position);
                out.push_str(itoa::Buffer::new().format(number));
            }
        }
    }

    /// The position of a seat with that label. O(runs of numbers + log texts).
    pub fn position(&self, label: &str) -> Option<u16> {
        self.positions(label).next()
    }

    /// The positions of the seats with that label. O(runs of numbers + log texts + found).
    pub fn positions(&self, label: &str) -> impl Iterator<Item = u16> {
        let number = as_number(label);
        let runs = if number.is_some() { &self.runs[..] } else { &[] };
        let numbers = runs.iter().filter_map(move |run| {
            let Kind::Numbers { first, step } = run.kind else { return None };
            let difference = i64::from(number?) - i64::from(first);
            let place = match (difference, i64::from(step)) {
                (0, _) => 0,
                (_, 0) => return None,
                (difference, step) if difference % step == 0 => difference / step,
                _ => return None,
            };
            (0..i64::from(run.count)).contains(&place).then(|| run.position + place as u16)
        });
        let texts = if number.is_none() { &self.texts[..] } else { &[] };
        let from = texts.partition_point(|&position| self.text_at(position) < label);
        let texts = texts.get(from..).unwrap_or_default().iter().copied();
        numbers.chain(texts.take_while(move |&position| self.text_at(position) == label))
    }

    /// Whether two seats have the same label.
    pub fn has_duplicates(&self) -> bool {
        let mut numbers: Vec<i64> = self.runs.iter().flat_map(Run::numbers).collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| matches!(pair, [a, b] if a == b)) {
            return true;
        }
        self.texts.windows(2).any(|pair| matches!(*pair, [a, b] if self.text_at(a) == self.text_at(b)))
    }

    /// Whether a label contains a `-`, which makes ids ambiguous.
    pub fn has_dash(&self) -> bool {
        self.texts.iter().any(|&position| self.text_at(position).contains('-'))
    }

    /// The length of the longest label.
    pub fn longest(&self) -> usize {
        let len = |run: &Run| match &run.kind {
            Kind::Text(text) => text.len(),
            Kind::Numbers { .. } => 9,
        };
        self.runs.iter().map(len).max().unwrap_or(0)
    }

    /// The short form of the row, if every label can be written in it: `1-12,|,13-24`. `len` positions in all.
    pub fn short_form(&self, len: usize) -> Option<String> {
        let mut out = String::new();
        let mut next = 0;
        for run in &self.runs {
            push_breaks(&mut out, usize::from(run.position) - next);
            next = usize::from(run.position + run.count);
            let step = match &run.kind {
                Kind::Numbers { step, .. } => *step,
                Kind::Text(text) => {
                    let fits = text.trim() == &**text && !text.contains([',', '-']) && &**text != "|";
                    if !fits {
                        return None;
                    }
                    push_item(&mut out, text);
                    continue;
                }
            };
            let mut numbers = run.numbers();
            if run.count > 1
                && step.abs() == 1
                && let (Some(first), Some(last)) = (numbers.next(), numbers.next_back())
            {
                push_item(&mut out, &format!("{first}-{last}"));
            } else {
                numbers.for_each(|number| push_item(&mut out, &number.to_string()));
            }
        }
        push_breaks(&mut out, len - next);
        Some(out)
    }

    /// Checks that the progressions do not overlap, that exactly the seats have labels, and that texts are in order.
    /// O(positions).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self, len: u16, is_seat: impl Fn(u16) -> bool) -> Checked {
        let mut next = 0;
        for run in &self.runs {
            ensure!(
                run.position >= next && run.count > 0,
                "the labels from {} on overlap others",
                run.position
            );
            ensure!(
                (next..run.position).all(|at| !is_seat(at)),
                "a seat before {} has no label",
                run.position
            );
            next = run.position.saturating_add(run.count);
            ensure!(next <= len, "there are labels up to {next} in a row of {len}");
            ensure!((run.position..next).all(&is_seat), "a break from {} on has a label", run.position);
            let text = matches!(run.kind, Kind::Text(_));
            ensure!(!text || run.count == 1, "the text at {} is the label of several seats", run.position);
            ensure!(run.numbers().all(|number| number >= 0), "a label from {} on is negative", run.position);
        }
        ensure!((next..len).all(|at| !is_seat(at)), "a seat from {next} on has no label");
        let texts = self.runs.iter().filter(|run| matches!(run.kind, Kind::Text(_)));
        let mut texts: Vec<u16> = texts.map(|run| run.position).collect();
        texts.sort_by_key(|&position| self.text_at(position));
        ensure!(*texts == *self.texts, "the texts of a row are not in their order");
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        let text = |run: &Run| match &run.kind {
            Kind::Text(text) => text.len(),
            Kind::Numbers { .. } => 0,
        };
        self.runs.len() * size_of::<Run>() + self.runs.iter().map(text).sum::<usize>() + self.texts.len() * 2
    }

    fn run_at(&self, position: u16) -> Option<&Run> {
        let after = self.runs.partition_point(|run| run.position <= position);
        self.runs.get(after.checked_sub(1)?).filter(|run| position - run.position < run.count)
    }

    fn text_at(&self, position: u16) -> &str {
        let Some(Kind::Text(text)) = self
            .run_at(position)
            .map(|run| &run.kind)
            .expected("a position that is listed with the texts has one")
        else {
            return "";
        };
        text
    }
}

fn push_item(out: &mut String, item: &str) {
    if !out.is_empty() {
        out.push(',');
    }
    out.push_str(item);
}

fn push_breaks(out: &mut String, count: usize) {
    for _ in 0..count {
        push_item(out, "|");
    }
}

/// Parses the short form: labels by position, `None` for a break.
///
/// # Errors
/// A sentence that names the invalid item.
pub fn parse_short_form(text: &str) -> Result<Vec<Option<String>>, String> {
    let mut labels = Vec::new();
    for item in text.split(',').map(str::trim) {
        let too_many = || format!("the row has more than {} positions", max::POSITIONS);
        match item.split_once('-') {
            _ if item.is_empty() => return Err(format!("there is an empty item in '{text}'")),
            _ if item == "|" => labels.push(None),
            None => labels.push(Some(item.to_owned())),
            Some((from, to)) => {
                let (Some(from), Some(to)) = (as_number(from.trim()), as_number(to.trim())) else {
                    return Err(format!(
                        "'{item}' is no range of plain numbers; write labels that contain a '-' or a leading zero as a list"
                    ));
                };
                if from.abs_diff(to) as usize >= max::POSITIONS {
                    return Err(too_many());
                }
                if from <= to {
                    labels.extend((from..=to).map(|number| Some(number.to_string())));
                } else {
                    labels.extend((to..=from).rev().map(|number| Some(number.to_string())));
                }
            }
        }
        if labels.len() > max::POSITIONS {
            return Err(too_many());
        }
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(text: &str) -> Labels {
        let parsed = parse_short_form(text).unwrap();
        Labels::new(parsed.iter().map(Option::as_deref))
    }

    #[test]
    fn check_finds_damaged_labels() {
        let sound = labels("1-3,|,A,B,7");
        let is_seat = |position: u16| position != 3;
        assert_eq!(sound.check(7, is_seat), Ok(()));
        assert!(sound.check(6, is_seat).is_err());
        assert!(sound.check(8, is_seat).is_err());
        assert!(sound.check(7, |_| true).is_err());
        assert!(sound.check(7, |position| position != 3 && position != 2).is_err());
        let damages: [fn(&mut Labels); 3] =
            [|row| row.texts.reverse(), |row| row.runs[0].count += 1, |row| row.runs[1].position = 1];
        for damage in damages {
            let mut row = sound.clone();
            damage(&mut row);
            assert!(row.check(7, is_seat).is_err());
        }
    }

    #[test]
    fn the_short_form_comes_back() {
        for text in ["1-12,|,13-24", "|,5-1,|,|,A,B,2,4,6,|", "7", "12,14,16,9,8a"] {
            let row = labels(text);
            assert_eq!(row.short_form(parse_short_form(text).unwrap().len()).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_bad_short_form_says_what_is_wrong() {
        for text in ["", "1,,2", "1-", "-", "a-b", "01-12", "1-99999", "1-4000000000"] {
            assert!(parse_short_form(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_label_is_found_where_it_stands(
            row in prop::collection::vec(prop::option::weighted(0.9, prop_oneof![
                (0u32..40).prop_map(|n| n.to_string()), "[A-C-]{1,2}", Just("007".to_owned()),
            ]), 0..60),
        ) {
            let labels = Labels::new(row.iter().map(Option::as_deref));
            let mut seen = std::collections::HashSet::new();
            let duplicates = row.iter().flatten().any(|label| !seen.insert(label));
            prop_assert_eq!(labels.has_duplicates(), duplicates);
            for (position, label) in row.iter().enumerate() {
                let mut written = String::new();
                labels.write(position as u16, &mut written);
                prop_assert_eq!(Some(&written).filter(|text| !text.is_empty()), label.as_ref());
                if let Some(label) = label {
                    let found = labels.position(label).unwrap();
                    prop_assert_eq!(row[usize::from(found)].as_ref(), Some(label));
                }
            }
            prop_assert_eq!(labels.position("99"), None);
            prop_assert_eq!(labels.position("Z"), None);
            if let Some(short) = labels.short_form(row.len()) && !row.is_empty() {
                prop_assert_eq!(parse_short_form(&short), Ok(row));
            }
        }
    }
}
