//! `allot show`: lists shows and what is in them, and exports them.

use std::fmt::Write as _;

use allot_client::{Bucket, ListFilter, Listed, MapRow, SeatBlock};
use allot_tools::seats::PlanOrder;
use clap::{Args, Subcommand};
use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use crate::arguments::{Key, KeyAndFile};
use crate::context::{Context, Noun};
use crate::failure::{Failure, Result};
use crate::output::{Column, Format, Section, columns, print};
use crate::terminal::{self, value};
use crate::watch::watch;
use crate::{rehearse, show_create, stores};

/// The places that the server examines for one part of a list.
const PART: u32 = 4000;
/// The places between two numbers above a map.
const RULED: usize = 10;

/// The verbs of shows.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the shows of the server, with their counts
    #[command(alias = "ls")]
    List,
    /// Show the counts of a show by area and tier, and with --map each row
    Get(Get),
    /// List the seats of a show
    Seats(Seats),
    /// List the live holds of a show
    Holds(Filtered),
    /// List the sales of a show; an order that several holds were sold under has a line for each
    Orders(Filtered),
    /// List the blocks of a show that have a name or an end
    Blocks(Key),
    /// List the users who wait for seats of a show
    Queue(Filtered),
    /// Follow the counts of a show
    Watch(Key),
    /// Create a show from a seating plan, or from the caches of an existing system
    Create(Box<show_create::Create>),
    /// Change a show that is on sale, by a part of a plan
    Alter(KeyAndFile),
    /// Write every seat of a show: as CSV, or as JSON with the plan, which `show create` reads
    Export(Key),
    /// Check a seating plan without a server, and print what is in it
    Check(show_create::Check),
    /// Sell out a copy of a show under load, and check that no seat is ever sold twice
    Rehearse(rehearse::Rehearse),
}

/// Arguments of `show get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    show: Key,
    /// Only this area
    #[arg(long)]
    area: Option<String>,
    /// Also each row with the states of its seats
    #[arg(long)]
    map: bool,
}

/// What a list is restricted to.
#[derive(Debug, Args)]
pub(crate) struct Filtered {
    #[command(flatten)]
    show: Key,
    /// Only this tier
    #[arg(long)]
    tier: Option<String>,
    /// Only this area
    #[arg(long)]
    area: Option<String>,
    /// Only this user
    #[arg(long)]
    user: Option<String>,
    /// Only this block, also what is held or sold from it
    #[arg(long)]
    block: Option<String>,
}

/// Arguments of `show seats`.
#[derive(Debug, Args)]
pub(crate) struct Seats {
    #[command(flatten)]
    filter: Filtered,
    /// Only seats in this state
    #[arg(long, value_parser = ["free", "held", "sold", "blocked", "queued"])]
    state: Option<String>,
}

columns! {
    SHOWS = key Text, seats Number, free Number, held Number, sold Number, blocked Number,
        areas Number wide, tiers Number wide;
    AREAS = area Text, tier Text, free Number, held Number, sold Number, blocked Number, longest_run Number,
        priority Number;
    MAP = area Text, row Text, seats Text;
    SEATS = id Text, state Text, tier Text, user Text, until Time, order Text, block Text, area Text wide,
        row Text wide, label Text wide, flags Text wide;
    /// A seat without the fields that hold for a moment only.
    EXPORT = id Text, area Text, row Text, label Text, tier Text, state Text, user Text, order Text,
        block Text;
    HOLDS = token Text, user Text, until Time, seats Text;
    ORDERS = order Text, user Text, token Text, seats Text;
    /// `left` counts the seats that are neither held nor sold.
    BLOCKS = block Text, seats Number, left Number, per_user Number, until Time;
    QUEUE = token Text, user Text, count Number, tier Text, from Text, priority Number, since Time,
        until Time;
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: Verb) -> Result {
    match verb {
        Verb::List => stores::list(context, Noun::Show, SHOWS).await,
        Verb::Get(arguments) => get(context, &arguments).await,
        Verb::Seats(Seats { filter, state }) => {
            let none = "there are no such seats";
            part(context, &filter, state.as_deref(), (Listed::Seats, SEATS, none)).await
        }
        Verb::Holds(filter) => {
            part(context, &filter, None, (Listed::Holds, HOLDS, "there are no such holds")).await
        }
        Verb::Orders(filter) => {
            part(context, &filter, None, (Listed::Orders, ORDERS, "there are no such sales")).await
        }
        Verb::Queue(filter) => part(context, &filter, None, (Listed::Waiting, QUEUE, "nobody waits")).await,
        Verb::Blocks(Key { key }) => blocks(context, &key).await,
        Verb::Watch(Key { key }) => {
            let show = stores::show(context, &key).await?;
            watch(context, SHOWS, async || Ok(vec![stores::summary(&key, &show.stat(None, None).await?)]))
                .await
        }
        Verb::Create(arguments) => show_create::create(context, *arguments).await,
        Verb::Alter(KeyAndFile { key, file }) => show_create::alter(context, &key, &file).await,
        Verb::Export(Key { key }) => export(context, &key).await,
        Verb::Check(arguments) => show_create::check(context, &arguments),
        Verb::Rehearse(arguments) => rehearse::run(context, &arguments).await,
    }
}

async fn blocks(context: &Context, key: &str) -> Result {
    let row = |block: &SeatBlock| {
        json!({
            "block": block.name, "seats": block.seats, "left": block.left, "per_user": block.per_user,
            "until": block.until,
        })
    };
    let blocks = stores::show(context, key).await?.blocks().await?;
    let rows: Vec<Value> = blocks.iter().map(row).collect();
    context.out.list(BLOCKS, &rows, "there are no blocks")
}

async fn get(context: &Context, arguments: &Get) -> Result {
    let Key { key } = &arguments.show;
    let show = stores::show(context, key).await?;
    let buckets = show.stat(None, arguments.area.as_deref()).await?;
    if buckets.is_empty() {
        return Err(Failure::absent(format!("the show '{key}' has no seats")));
    }
    let rows: Vec<Value> = buckets
        .iter()
        .map(|bucket| {
            json!({
                "area": bucket.area, "tier": bucket.tier, "free": bucket.free, "held": bucket.held,
                "sold": bucket.sold, "blocked": bucket.blocked, "longest_run": bucket.longest,
                "priority": bucket.priority,
            })
        })
        .collect();
    let mut all = stores::summary(key, &buckets);
    let mut maps = Vec::new();
    if arguments.map {
        let mut areas: Vec<&str> = buckets.iter().map(|bucket| bucket.area.as_str()).collect();
        areas.dedup();
        for area in areas {
            maps.push((area, show.map(area).await?));
        }
    }
    let row = |area: &str, row: &MapRow| json!({"area": area, "row": row.label, "seats": row.seats});
    let map: Vec<Value> =
        maps.iter().flat_map(|(area, rows)| rows.iter().map(|one| row(area, one))).collect();
    let by_area = Section { name: "by_area", columns: AREAS, rows: &rows };
    let map = Section { name: "map", columns: MAP, rows: &map };
    if !context.out.is_table() {
        let sections = if arguments.map { vec![by_area, map] } else { vec![by_area] };
        return context.out.get(SHOWS, &all, &sections);
    }
    if let Some(all) = all.as_object_mut() {
        all.retain(|name, _| name != "areas" && name != "tiers");
    }
    context.out.get(SHOWS, &all, &[by_area])?;
    let color = context.out.color;
    let mut drawn = String::new();
    for (area, rows) in &maps {
        drawn += &draw(area, rows, color, context.out.width);
    }
    if !maps.is_empty() {
        drawn += &legend(color, context.out.width);
    }
    print(&drawn)
}

/// Prints a list part by part.
async fn part(
    context: &Context,
    filter: &Filtered,
    state: Option<&str>,
    (what, columns, none): (Listed, &'static [Column], &str),
) -> Result {
    let show = stores::show(context, &filter.show.key).await?;
    let filter = ListFilter {
        state,
        tier: filter.tier.as_deref(),
        area: filter.area.as_deref(),
        user: filter.user.as_deref(),
        block: filter.block.as_deref(),
    };
    let page = async |cursor| {
        let (part, next) = show.list(what, &filter, cursor, PART).await?;
        Ok((next, part))
    };
    context.out.pages(columns, none, page).await
}

async fn export(context: &Context, key: &str) -> Result {
    let show = stores::show(context, key).await?;
    let mut out = context.out;
    if out.is_table() {
        out.format = Format::Csv;
    }
    let total: u64 = show.stat(None, None).await?.iter().map(Bucket::all).sum();
    let work = context.work("exporting", total, "seats were written", "the same command begins again");
    let plan = show.plan().await?;
    let mut order = PlanOrder::of(&plan)?;
    if out.format == Format::Json {
        let plan: Value = serde_json::from_str(&plan).map_err(anyhow::Error::from)?;
        out.text(&format!("{{\"plan\":{plan},\n\"seats\":"))?;
    }
    let mut done = 0;
    let page = async |cursor| {
        let (part, next) = show.list(Listed::Seats, &ListFilter::default(), cursor, PART).await?;
        done += part.len() as u64;
        work.at(done, total);
        Ok((next, order.of_part(part, next == 0)?))
    };
    out.pages(EXPORT, "the show has no seats", page).await?;
    if out.format == Format::Json { print("}\n") } else { Ok(()) }
}

/// Draws an area, in parts of whole tens of places that are not wider than the terminal. The line above each part counts
/// the places of a row from 1; gaps are places too.
fn draw(area: &str, rows: &[MapRow], color: bool, width: Option<usize>) -> String {
    let title = value(area);
    let mut text = if color { format!("\n{}\n", title.bold()) } else { format!("\n{title}\n") };
    let labels = rows.iter().map(|row| value(&row.label).width()).max().unwrap_or(0);
    let longest = rows.iter().map(|row| row.seats.trim_end().chars().count()).max().unwrap_or(0);
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(labels + 4));
    let part = (room / RULED * RULED).max(RULED);
    for begin in (0..longest).step_by(part) {
        let end = longest.min(begin.saturating_add(part));
        let mut marks = String::new();
        for place in (begin..end).step_by(RULED) {
            let _ = write!(marks, "{:<RULED$}", place + 1);
        }
        let _ = writeln!(text, "  {:labels$}  {}", "", marks.trim_end());
        for row in rows {
            let seats: String = row.seats.chars().skip(begin).take(end - begin).collect();
            let label = value(&row.label);
            let pad = " ".repeat(labels - label.width());
            let _ = writeln!(text, "  {pad}{label}  {}", paint(&value(&seats), color));
        }
    }
    text
}

fn legend(color: bool, width: Option<usize>) -> String {
    let marks = [(".", "free"), ("h", "held"), ("s", "sold"), ("x", "blocked"), ("q", "queued")];
    let entries = marks.map(|(mark, meaning)| format!("{mark}\u{a0}{meaning}")).join("   ");
    let mut entries = terminal::folded(&entries, 0, width).replace('\u{a0}', " ");
    if color {
        for (mark, meaning) in marks {
            entries =
                entries.replace(&format!("{mark} {meaning}"), &format!("{} {meaning}", paint(mark, color)));
        }
    }
    format!(
        "\n{entries}\n{}\n",
        terminal::folded("numbers above an area count places, gaps included", 0, width)
    )
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
        text += &match mark {
            '.' => stretch.green().to_string(),
            'h' => stretch.yellow().to_string(),
            's' => stretch.red().to_string(),
            // Bright black is the background of some terminals.
            'x' => stretch.dimmed().to_string(),
            _ => stretch.to_owned(),
        };
        rest = after;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_the_map_is_plain_text() {
        let rows = [
            MapRow { label: "A".into(), seats: "..h ss".into() },
            MapRow { label: "AA".into(), seats: "s  ".into() },
        ];
        assert_eq!(draw("stalls", &rows, false, None), "\nstalls\n      1\n   A  ..h ss\n  AA  s\n");
    }

    #[test]
    fn long_rows_are_drawn_in_parts_with_their_places() {
        let rows = [MapRow { label: "東".into(), seats: ".".repeat(25) }];
        let expected = "\nmain\n      1         11\n  東  ....................\n      21\n  東  .....\n";
        assert_eq!(draw("main", &rows, false, Some(27)), expected);
    }

    #[test]
    fn colour_changes_only_where_the_state_does() {
        assert_eq!(paint("..s .", true), "\u{1b}[32m..\u{1b}[39m\u{1b}[31ms\u{1b}[39m \u{1b}[32m.\u{1b}[39m");
    }
}
