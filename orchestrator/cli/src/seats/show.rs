//! `allot seats show`: prints a show in the terminal: areas, counts and the map of every row.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use anyhow::{Result, bail};
use clap::Args;
use owo_colors::{AnsiColors, OwoColorize};

use crate::outcome::Outcome;
use crate::sources::RedisSource;
use crate::terminal::{self, value};
use allot_client::{self, Bucket, MapRow, SeatStore};

/// Arguments of `allot seats show`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Key of the show.
    key: String,
    /// Only this area.
    #[arg(long)]
    area: Option<String>,
    /// Plain text, also in a terminal.
    #[arg(long)]
    no_color: bool,
    #[command(flatten)]
    redis: RedisSource,
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let show = SeatStore::new(arguments.redis.connect(&arguments.key).await?, &arguments.key);
    let buckets = show.stat(None, arguments.area.as_deref()).await?;
    if buckets.is_empty() {
        bail!("the show '{}' has no seats", arguments.key);
    }
    let color = !arguments.no_color && io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut areas: Vec<&str> = Vec::new();
    for bucket in &buckets {
        if !areas.contains(&bucket.area.as_str()) {
            areas.push(&bucket.area);
        }
    }
    let mut text = String::new();
    for area in areas {
        let of_area: Vec<&Bucket> = buckets.iter().filter(|bucket| bucket.area == area).collect();
        text += &draw(area, &of_area, &show.map(area).await?, color);
        text.push('\n');
    }
    text += &totals(&buckets);
    text += &legend(color);
    terminal::write_data(&text).map(|()| Outcome::Done)
}

fn draw(area: &str, buckets: &[&Bucket], rows: &[MapRow], color: bool) -> String {
    let priority = buckets.first().map_or(0, |bucket| bucket.priority);
    let title = format!("{}  (priority {priority})", value(area));
    let mut text = if color { format!("{}\n", title.bold()) } else { format!("{title}\n") };
    for bucket in buckets {
        let _ = writeln!(
            text,
            "  {}: {}, longest run {}",
            value(&bucket.tier),
            counts(&[*bucket]),
            bucket.longest
        );
    }
    let width = rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0);
    for row in rows {
        let _ = writeln!(text, "  {:>width$}  {}", value(&row.label), paint(&value(&row.seats), color));
    }
    text
}

fn counts(buckets: &[&Bucket]) -> String {
    let sum = |of: fn(&Bucket) -> u64| buckets.iter().map(|bucket| of(bucket)).sum::<u64>();
    format!(
        "{} seats, {} free, {} held, {} sold, {} blocked",
        sum(Bucket::all),
        sum(|bucket| bucket.free),
        sum(|bucket| bucket.held),
        sum(|bucket| bucket.sold),
        sum(|bucket| bucket.blocked)
    )
}

fn totals(buckets: &[Bucket]) -> String {
    format!("in all: {}\n", counts(&buckets.iter().collect::<Vec<_>>()))
}

fn legend(color: bool) -> String {
    let entry = |(mark, meaning): (&str, &str)| format!("{} {meaning}", paint(mark, color));
    let marks = [(".", "free"), ("h", "held"), ("s", "sold"), ("x", "blocked")];
    format!("{}\n", marks.map(entry).join("   "))
}

/// Colours stretches of one state together, as a terminal is slow with a colour for each seat.
fn paint(seats: &str, color: bool) -> String {
    if !color {
        return seats.trim_end().to_owned();
    }
    let mut text = String::new();
    let mut rest = seats.trim_end();
    while let Some(mark) = rest.chars().next() {
        let end = rest.find(|other| other != mark).unwrap_or(rest.len());
        let (stretch, after) = rest.split_at(end);
        let color = match mark {
            '.' => Some(AnsiColors::Green),
            'h' => Some(AnsiColors::Yellow),
            's' => Some(AnsiColors::Red),
            'x' => Some(AnsiColors::BrightBlack),
            _ => None,
        };
        match color {
            Some(color) => text += &stretch.color(color).to_string(),
            None => text += stretch,
        }
        rest = after;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(tier: &str) -> Bucket {
        Bucket {
            area: "stalls".into(),
            tier: tier.into(),
            priority: 1,
            free: 2,
            held: 1,
            sold: 3,
            blocked: 0,
            longest: 2,
        }
    }

    #[test]
    fn without_colour_the_map_is_plain_text() {
        let rows = [
            MapRow { label: "A".into(), seats: "..h ss".into() },
            MapRow { label: "AA".into(), seats: "s  ".into() },
        ];
        let text = draw("stalls", &[&bucket("gold")], &rows, false);
        assert_eq!(
            text,
            "stalls  (priority 1)\n  gold: 6 seats, 2 free, 1 held, 3 sold, 0 blocked, longest run 2\n   A  ..h ss\n  AA  s\n"
        );
        assert_eq!(
            totals(&[bucket("a"), bucket("b")]),
            "in all: 12 seats, 4 free, 2 held, 6 sold, 0 blocked\n"
        );
    }

    #[test]
    fn colour_changes_only_where_the_state_does() {
        assert_eq!(paint("..s .", true), "\u{1b}[32m..\u{1b}[39m\u{1b}[31ms\u{1b}[39m \u{1b}[32m.\u{1b}[39m");
    }
}
