//! `allotd accounts status`: prints departments, modules and instances, and the accounts that will soon cost more.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use allot_core::account::tariff::Amount;
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::file;
use crate::cli::outcome::Outcome;
use crate::cli::table;
use crate::cli::terminal;
use crate::config::BookSource;
use allot_client::Record;

/// Most accounts that are printed; further ones are only counted.
const SHOWN: usize = 20;

/// The options of the status command.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: BookSource,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// An account that will reach its next price step within the month at its rate so far.
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
    cost: Amount,
}

/// Prints the status.
pub(super) async fn run(arguments: &Arguments) -> Result<Outcome> {
    let (_, store) = super::session::open(&arguments.source).await?;
    let book = store.info().await?;
    let (seconds, microseconds): (i64, i64) = store.ask(&redis::cmd("TIME")).await?;
    let now = seconds * 1000 + microseconds / 1000;
    let (departments, modules) = (store.usage("department").await?, store.usage("module").await?);
    let records = store.modules().await?;
    let (begin, end): (Option<i64>, i64) = (book.get("month_start")?, book.get("month_end")?);
    let forecasts = forecasts(&store.accounts(None).await?, (begin.unwrap_or(now), end), now)?;
    let (costs, warnings) = (costs(&forecasts, &records)?, warnings(forecasts));
    if arguments.json {
        let all = json!({
            "book": book.json(),
            "departments": departments.iter().map(|line| Costs::line(line, &costs.departments)).collect::<Vec<_>>(),
            "use": modules.iter().map(|line| Costs::line(line, &costs.modules)).collect::<Vec<_>>(),
            "modules": records.iter().map(module_json).collect::<Result<Vec<_>>>()?,
            "warnings": warnings.iter().map(Warning::json).collect::<Vec<_>>(),
        });
        return terminal::write(&format!("{all}\n")).map(|()| Outcome::Done);
    }
    terminal::write(&draw(&book, (&departments, &modules), &records, &costs, &warnings)?)
        .map(|()| Outcome::Done)
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
            "price": self.price, "forecast": self.forecast, "forecast_cost": self.cost.to_string(),
        })
    }
}

fn draw(
    book: &Record,
    (departments, modules): (&[Record], &[Record]),
    records: &[Record],
    costs: &Costs,
    warnings: &[Warning],
) -> Result<String> {
    let titles = ["", "accounts", "dealt", "revoking", "used", "quota", "forecast", "cost", "forecast cost"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let usage = |name: String, [dealt, revoking]: [String; 2], line: &Record, cost: Amount| {
        let text = |field| line.text(field);
        vec![
            name,
            text("accounts"),
            dealt,
            revoking,
            text("used"),
            text("quota"),
            text("projected"),
            text("cost"),
            cost.to_string(),
        ]
    };
    let lines: BTreeMap<String, &Record> = modules.iter().map(|line| (line.text("name"), line)).collect();
    for department in departments {
        let name = department.text("name");
        let cost = costs.departments.get(&name).copied().unwrap_or_default();
        rows.push(usage(name.clone(), Default::default(), department, cost));
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
                let cost = costs.modules.get(&line.text("name")).copied().unwrap_or_default();
                rows.push(usage(title, [sum("dealt")?, sum("revoking")?], line, cost));
            }
            for instance in &attached {
                let state = instance.text("state");
                let state = if state == "active" { String::new() } else { format!(" ({state})") };
                let name = format!("    {}{state}", instance.text("instance"));
                rows.push(vec![name, String::new(), instance.text("dealt"), instance.text("revoking")]);
            }
        }
    }
    let mut text = format!(
        "{} accounts: {} dealt, {} free, {} revoking, {} frozen; {} logged in\n\n",
        book.text("accounts"),
        book.text("dealt"),
        book.text("free"),
        book.text("revoking"),
        book.text("frozen"),
        book.text("logins")
    );
    text.push_str(&table::lay(&rows));
    if !warnings.is_empty() {
        let _ = writeln!(
            text,
            "\n{} accounts reach their next price step this month, by their pace so far:",
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
        text.push_str("`allotd accounts rebalance --dry-run` says what can be done about it.\n");
    }
    Ok(text)
}

/// One hour, in milliseconds.
const HOUR: i64 = 3_600_000;

/// What an account will have used and cost at the end of the month, at its rate so far.
struct Forecast {
    module: String,
    cost: Amount,
    /// Present if the account will reach its next price step.
    warning: Option<Warning>,
}

/// The forecasts of all accounts, in a month that begins and ends at these times.
fn forecasts(accounts: &[Record], (begin, end): (i64, i64), now: i64) -> Result<Vec<Forecast>> {
    // The first minutes of a month allow no forecast, so at least one hour counts as passed.
    let (passed, whole) = ((now - begin).max(HOUR) as u128, (end - begin).max(HOUR) as u128);
    let forecast = |record: &Record| {
        let (quota, used): (u64, u64) = (record.get("quota")?, record.get("used")?);
        let (module, tiers) = (record.text("module"), record.text("tiers"));
        let forecast = u64::try_from(u128::from(used) * whole / passed).unwrap_or(u64::MAX).max(used);
        let cost = file::Tariff { quota, tiers: tiers.clone() }.priced().cost(forecast);
        let step = next_step(quota, &tiers, used).filter(|&(step_end, _)| forecast > step_end);
        let warning = step.map(|(end, price)| {
            let place = format!("{module}/{}", record.text("instance"));
            Warning { account: record.text("account"), place, used, end, price, forecast, cost }
        });
        Ok(Forecast { module, cost, warning })
    };
    accounts.iter().map(forecast).collect()
}

/// The accounts that will reach their next step, those nearest to it first.
fn warnings(forecasts: Vec<Forecast>) -> Vec<Warning> {
    let mut all: Vec<Warning> = forecasts.into_iter().filter_map(|forecast| forecast.warning).collect();
    all.sort_by_key(|warning| warning.end.saturating_sub(warning.used));
    all
}

/// The forecast costs of the month, by name.
#[derive(Default)]
struct Costs {
    modules: BTreeMap<String, Amount>,
    /// A department has the costs of the departments in it as well.
    departments: BTreeMap<String, Amount>,
}

impl Costs {
    /// A line of use, with the forecast cost of its object.
    fn line(line: &Record, costs: &BTreeMap<String, Amount>) -> Value {
        let mut all = line.json();
        let cost = costs.get(&line.text("name")).copied().unwrap_or_default();
        if let Some(fields) = all.as_object_mut() {
            fields.insert("forecast_cost".to_owned(), cost.to_string().into());
        }
        all
    }
}

fn costs(forecasts: &[Forecast], modules: &[Record]) -> Result<Costs> {
    let mut costs = Costs::default();
    for forecast in forecasts {
        let sum = costs.modules.entry(forecast.module.clone()).or_default();
        sum.0 = sum.0.saturating_add(forecast.cost.0);
    }
    for module in modules {
        let cost = costs.modules.get(&module.text("module")).copied().unwrap_or_default();
        let department: String = module.get("department")?;
        let ends = department.match_indices('/').map(|(end, _)| end).chain([department.len()]);
        for level in ends.filter_map(|end| department.get(..end)) {
            let sum = costs.departments.entry(level.to_owned()).or_default();
            sum.0 = sum.0.saturating_add(cost.0);
        }
    }
    Ok(costs)
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
