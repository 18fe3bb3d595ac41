//! `allot seats export`: every seat of a show, for other systems.

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::list;
use crate::outcome::Outcome;
use crate::sources::RedisSource;
use crate::terminal;
use allot_client::{ListFilter, Listed, Record, SeatStore};

/// The fields of a seat, in the order of the columns.
const FIELDS: [&str; 9] = ["id", "area", "row", "label", "tier", "state", "user", "order", "block"];

/// Arguments of `allot seats export`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Key of the show.
    key: String,
    /// A table, or JSON with the plan, which `allot seats load` reads.
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    #[command(flatten)]
    redis: RedisSource,
}

/// A format of exported shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table with a header.
    Csv,
    /// An object with `plan` and `seats`.
    Json,
}

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let show = SeatStore::new(arguments.redis.connect(&arguments.key).await?, &arguments.key);
    let seats = list::all(&show, Listed::Seats, &ListFilter::default()).await?;
    let text = match arguments.format {
        Format::Csv => table(&seats)?,
        Format::Json => {
            let plan: Value = serde_json::from_str(&show.plan().await?)?;
            let seats: Vec<Value> = seats.iter().map(exported).collect();
            format!("{}\n", serde_json::json!({"plan": plan, "seats": seats}))
        }
    };
    terminal::write_data(&text).map(|()| Outcome::Done)
}

/// A seat without the fields that hold for a moment only.
fn exported(seat: &Record) -> Value {
    let mut all = seat.json();
    let field = |name: &str| (name.to_owned(), all.get_mut(name).map_or(Value::Null, Value::take));
    FIELDS.map(field).into_iter().collect::<serde_json::Map<_, _>>().into()
}

fn table(seats: &[Record]) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(FIELDS)?;
    for seat in seats {
        let all = exported(seat);
        let field = |name: &str| all.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        writer.write_record(FIELDS.map(field))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}
