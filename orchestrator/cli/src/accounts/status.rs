//! `allot accounts status`: prints departments, modules and instances, and the accounts that will soon cost more.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::sources::BookSource;
use crate::table;
use crate::terminal;
use allot_client::Record;

/// Most accounts that are printed; further ones are only counted.
const SHOWN: usize = 20;

/// Why the table and the warnings may forecast different sums.
const TWO_FORECASTS: &str = "A module's forecast assumes that each instance uses its cheapest accounts first; a warning assumes that the account is used as before.\n";

/// The options of the status command.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: BookSource,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// An account that will reach its next price step within the month, as the book expects.
#[derive(Debug, PartialEq, Eq)]
struct Warning {
    account: String,
    place: String,
    used: u64,
    /// The number of instructions after which the next step starts.
    end: u64,
    price: String,
    forecast: u64,
    /// What the forecast costs beyond the flat price, for the whole month.
    cost: String,
}

/// Prints the status.
pub(super) async fn run(arguments: &Arguments) -> Result<Outcome> {
    let (_, store) = super::session::open(&arguments.source).await?;
    let book = store.info().await?;
    let (departments, modules) = (store.usage("department").await?, store.usage("module").await?);
    let records = store.modules().await?;
    let warnings = warnings(&store.accounts(None).await?)?;
    if arguments.json {
        let all = json!({
            "book": book.json(),
            "departments": departments.iter().map(Record::json).collect::<Vec<_>>(),
            "use": modules.iter().map(Record::json).collect::<Vec<_>>(),
            "modules": records.iter().map(module_json).collect::<Result<Vec<_>>>()?,
            "warnings": warnings.iter().map(Warning::json).collect::<Vec<_>>(),
        });
        return terminal::write(&format!("{all}\n")).map(|()| Outcome::Done);
    }
    terminal::write(&draw(&book, (&departments, &modules), &records, &warnings)?).map(|()| Outcome::Done)
}

fn module_json(record: &Record) -> Result<Value> {
    let mut all = record.json();
    let attached = Record::read_list(record.get("attached")?)?;
    if let Some(fields) = all.as_object_mut() {
        fields.insert("attached".to_owned(), attached.iter().map(Record::json).collect::<Vec<_>>().into());
    }
    Ok(all)
}

impl Warning {
    fn json(&self) -> Value {
        json!({
            "account": self.account, "place": self.place, "used": self.used, "end": self.end,
            "price": self.price, "forecast": self.forecast, "forecast_cost": self.cost,
        })
    }
}

fn draw(
    book: &Record,
    (departments, modules): (&[Record], &[Record]),
    records: &[Record],
    warnings: &[Warning],
) -> Result<String> {
    let titles =
        ["", "accounts", "assigned", "revoking", "used", "quota", "forecast", "cost", "forecast cost"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let usage = |name: String, [assigned, revoking]: [String; 2], line: &Record| {
        let text = |field| line.text(field);
        vec![
            name,
            text("accounts"),
            assigned,
            revoking,
            text("used"),
            text("quota"),
            text("projected"),
            text("cost"),
            text("projected_cost"),
        ]
    };
    let lines: BTreeMap<String, &Record> = modules.iter().map(|line| (line.text("name"), line)).collect();
    for department in departments {
        let name = department.text("name");
        rows.push(usage(name.clone(), Default::default(), department));
        for module in records.iter().filter(|module| module.text("department") == name) {
            let attached = Record::read_list(module.get("attached")?)?;
            let sum = |field: &str| -> Result<String> {
                let all = attached
                    .iter()
                    .map(|instance| instance.get::<u64>(field))
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(all.iter().sum::<u64>().to_string())
            };
            let title = format!(
                "  {} ({} of {} places)",
                module.text("module"),
                module.text("active"),
                module.text("instances")
            );
            if let Some(line) = lines.get(&module.text("module")) {
                rows.push(usage(title, [sum("assigned")?, sum("revoking")?], line));
            }
            for instance in &attached {
                let state = instance.text("state");
                let state = if state == "active" { String::new() } else { format!(" ({state})") };
                let name = format!("    {}{state}", instance.text("instance"));
                rows.push(vec![name, String::new(), instance.text("assigned"), instance.text("revoking")]);
            }
        }
    }
    let mut text = format!(
        "{} accounts: {} assigned, {} free, {} revoking, {} frozen; {} logged in\n\n",
        book.text("accounts"),
        book.text("assigned"),
        book.text("free"),
        book.text("revoking"),
        book.text("frozen"),
        book.text("logins")
    );
    text.push_str(&table::lay(&rows));
    if !warnings.is_empty() {
        let _ = writeln!(
            text,
            "\n{} accounts reach their next price step this month if they are used as expected:",
            warnings.len()
        );
        for warning in warnings.iter().take(SHOWN) {
            let Warning { account, place, used, end, price, forecast, cost } = warning;
            let _ = writeln!(
                text,
                "  {account} ({place}): {used} used, forecast {forecast}, which costs {cost}; beyond {end} each costs {price}"
            );
        }
        if warnings.len() > SHOWN {
            let _ = writeln!(text, "  ... and {} more", warnings.len() - SHOWN);
        }
        text.push_str(TWO_FORECASTS);
        text.push_str("`allot accounts rebalance --dry-run` says what can be done about it.\n");
    }
    Ok(text)
}

/// The accounts that will reach their next step, those nearest to it first.
fn warnings(accounts: &[Record]) -> Result<Vec<Warning>> {
    let mut all = Vec::new();
    for record in accounts {
        // Too little is known about an account without a forecast.
        let Some(forecast) = record.get::<Option<u64>>("projected")? else { continue };
        let (quota, used): (u64, u64) = (record.get("quota")?, record.get("used")?);
        let step = next_step(quota, &record.text("tiers"), used);
        if let Some((end, price)) = step.filter(|&(end, _)| forecast > end) {
            let place = format!("{}/{}", record.text("module"), record.text("instance"));
            let (account, cost) = (record.text("account"), record.get("projected_cost")?);
            all.push(Warning { account, place, used, end, price, forecast, cost });
        }
    }
    all.sort_by_key(|warning| warning.end.saturating_sub(warning.used));
    Ok(all)
}

/// The end of the current step after `used` instructions, and the price of the next step; `None` on the last step.
fn next_step(quota: u64, tiers: &str, used: u64) -> Option<(u64, String)> {
    let steps: Vec<&str> = tiers.split_whitespace().collect();
    let mut end = quota;
    for step in steps.chunks(2) {
        let [upto, price] = step else { return None };
        if used <= end {
            return Some((end, (*price).to_owned()));
        }
        end = upto.parse().ok()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_step_follows_the_use_so_far() {
        let next = |used| next_step(100, "150 0.1 1000 0.5", used);
        assert_eq!(next(0), Some((100, "0.1".into())));
        assert_eq!(next(100), Some((100, "0.1".into())));
        assert_eq!(next(101), Some((150, "0.5".into())));
        assert_eq!(next(151), None);
        assert_eq!(next_step(100, "", 5), None);
        assert_eq!(next_step(100, "-", 5), None);
    }
}
