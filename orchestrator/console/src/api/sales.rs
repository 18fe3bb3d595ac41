//! The sales of a show since its creation, from its event stream.

use std::sync::Arc;

use allot_client::{Error, Record, SeatStore, streams};
use redis::{Value, cmd};
use serde_json::value::RawValue;

use super::declaration::AtKey;
use crate::problem::Problem;
use crate::shared::Sales;
use crate::state::Console;

/// Entries of the stream that are read at once, and for one curve.
const PAGE: usize = 500;
const ENTRIES: usize = 200_000;
/// Most points of a curve.
const POINTS: usize = 1000;

/// The curve of a show, as of some seconds ago at most.
pub(super) async fn sales(console: Arc<Console>, AtKey { key }: AtKey) -> Result<Sales, Problem> {
    let ask = async |show: SeatStore| read(&show, &key).await;
    let read = console.viewer.ask(SeatStore::new, &key, ask);
    Ok(console.sales.answer(key.clone(), read).await?)
}

/// Reads the stream from its end to its beginning. The number of sold seats at its end is that of the show.
async fn read(show: &SeatStore, key: &str) -> Result<Sales, Error> {
    let page = |end: &str| {
        let mut command = cmd("XREVRANGE");
        command.arg(format!("{key}:evt")).arg(end).arg("-").arg("COUNT").arg(PAGE);
        command
    };
    // One step: the sold seats are those at the end of the stream.
    let mut pipe = redis::pipe();
    pipe.atomic().add_command(show.begin("SEAT.STAT")).add_command(page("+"));
    let (buckets, newest): (Value, Value) = show.ask_pipe(&pipe).await?;
    let mut curve = Curve::new(0);
    for bucket in Record::read_list(buckets)? {
        curve.sold += bucket.get::<u64>("sold")?;
    }
    let mut entries = streams::read_list(newest)?;
    let mut left = ENTRIES;
    loop {
        for entry in &entries {
            if !curve.undo(entry) {
                return Ok(curve.sales(true));
            }
        }
        left = left.saturating_sub(PAGE);
        let oldest = entries.last().map(|entry| format!("({}", entry.id));
        let Some(oldest) = oldest.filter(|_| entries.len() == PAGE && left > 0) else {
            return Ok(curve.sales(false));
        };
        entries = streams::read_list(show.ask(&page(&oldest)).await?)?;
    }
}

/// A curve that grows backwards.
struct Curve {
    /// Seats that were sold before the oldest entry that was read.
    sold: u64,
    /// Points are at least this far apart, in milliseconds.
    step: u64,
    /// The last change of each step, and the seats sold from then on; from new to old.
    points: Vec<(u64, u64)>,
}

impl Curve {
    fn new(sold: u64) -> Self {
        Self { sold, step: 1, points: Vec::new() }
    }

    /// Goes back before an entry. Returns whether there is a before.
    fn undo(&mut self, entry: &streams::Entry) -> bool {
        let at = entry.id.split('-').next().and_then(|time| time.parse().ok()).unwrap_or_default();
        let event = entry.text("event");
        let seats = |name: &str| {
            // Their number counts, and not their names.
            serde_json::from_slice::<Vec<&RawValue>>(entry.bytes(name)).map_or(0, |seats| seats.len() as u64)
        };
        let before = match event.as_str() {
            "confirmed" => self.sold.saturating_sub(seats("seats")),
            "refunded" => self.sold + seats("seats"),
            "created" => {
                self.add(at);
                return false;
            }
            // Another value was there before.
            "key-deleted" | "key-overwritten" | "key-expired" | "key-evicted" => return false,
            _ => return true,
        };
        self.add(at);
        self.sold = before;
        true
    }

    fn add(&mut self, at: u64) {
        if self.points.last().is_some_and(|(last, _)| last / self.step == at / self.step) {
            return;
        }
        self.points.push((at, self.sold));
        while self.points.len() > POINTS {
            self.step *= 2;
            // The first of those that are equal is the last change of its step.
            self.points.dedup_by_key(|(at, _)| *at / self.step);
        }
    }

    fn sales(self, whole: bool) -> Sales {
        let (at, sold) = self.points.into_iter().rev().unzip();
        Sales { at, sold, whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: u64, event: &str, seats: usize) -> streams::Entry {
        let seats = serde_json::to_vec(&vec!["a\"b"; seats]).unwrap();
        let fields = vec![(b"event".to_vec(), event.as_bytes().to_vec()), (b"seats".to_vec(), seats)];
        streams::Entry { id: format!("{at}-0"), fields }
    }

    #[test]
    fn curve_is_counted_from_the_end_of_the_stream() {
        let mut curve = Curve::new(7);
        for (at, event, seats) in [
            (90, "held", 2),
            (80, "refunded", 1),
            (70, "moved", 3),
            (60, "confirmed", 4),
            (50, "confirmed", 2),
        ] {
            assert!(curve.undo(&entry(at, event, seats)));
        }
        // The stream has lost what came before; two seats were sold then.
        assert_eq!(curve.sold, 2);
        let sales = curve.sales(false);
        assert_eq!((sales.at, sales.sold), (vec![50, 60, 80], vec![4, 8, 7]));
    }

    #[test]
    fn long_curve_keeps_its_ends_and_the_last_change_of_each_step() {
        let mut curve = Curve::new(100_000);
        for at in (1..=100_000).rev() {
            assert!(curve.undo(&entry(at, "confirmed", 1)));
        }
        assert!(!curve.undo(&entry(0, "created", 0)));
        let sales = curve.sales(true);
        assert!((POINTS / 2..=POINTS).contains(&sales.at.len()), "{}", sales.at.len());
        assert_eq!(sales.at.last(), Some(&100_000));
        assert!(sales.at.iter().zip(&sales.sold).all(|(at, sold)| at == sold));
    }
}
