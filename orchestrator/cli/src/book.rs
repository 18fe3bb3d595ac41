//! `allot book`: books of accounts, and tables that books are made equal to. No daemon is needed; if one runs, it is told
//! of changes.

use std::collections::BTreeMap;

use allot_client::{BookStore, Record};
use allot_tools::accounts::file::{self, Contents, tiers_of};
use allot_tools::accounts::import::{Difference, SHOWN, notify};
use allot_tools::accounts::module_settings::{self, ModuleSettings};
use allot_tools::accounts::simulate::{self, Options, Outcomes};
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;
use serde_json::{Value, json};

use crate::arguments::Book;
use crate::context::{Context, Noun, values};
use crate::failure::{Cause, Failure, Result, counted};
use crate::output::{Section, columns, field, lines as as_lines};
use crate::{complete, input, stores};

/// The node below the root of accounts that announces changes of the inventory.
const NOTIFY: &str = "notify";

/// The verbs of books.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the books of the server
    #[command(alias = "ls")]
    List,
    /// Show a book: its modules and instances, use, cost and forecast, and accounts that will cost more
    Get(OfBook),
    /// Show how a table differs from the book; exit code 1 if it does
    Diff(Diff),
    /// Make the book equal to a table: modules, accounts, tariffs
    Apply(Apply),
    /// Write the book as a table that `diff` and `apply` read
    Export(Book),
    /// Move accounts to the instances that would pay extra without them
    Rebalance(Book),
    /// Replay a month of use from a file, and print what it would have cost
    Simulate(Options),
}

/// A book.
#[derive(Debug, Args)]
pub(crate) struct OfBook {
    /// The book [default: book in the settings, or ALLOT_BOOK]
    #[arg(add = ArgValueCompleter::new(complete::books))]
    key: Option<String>,
}

/// Arguments of `book diff`.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The table (CSV): department, module, account, quota, tiers (`UPTO:PRICE ...`), `account_cap`, turn, and settings
    /// of modules; - is standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: String,
    /// Also delete accounts that the table does not have
    #[arg(long)]
    prune: bool,
    /// Places of new modules for which the table names none
    #[arg(long, default_value_t = 1, value_name = "N")]
    instances: u32,
    #[command(flatten)]
    book: Book,
}

/// Arguments of `book apply`.
#[derive(Debug, Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    diff: Diff,
    /// Refuse to delete more accounts than this
    #[arg(long, requires = "prune", value_name = "N")]
    max_delete: Option<usize>,
}

columns! {
    BOOKS = key Text, accounts Number, free Number, assigned Number, revoking Number, frozen Number,
        logins Number, modules Number, instances Number;
    BOOK = key Text, accounts Number, free Number, assigned Number, revoking Number, frozen Number,
        logins Number, modules Number, instances Number, cap Number, dwell_ms Span = "dwell",
        max_moves Number = "maxmoves", margin Text, lend_level Number = "lendlevel", events Number,
        month_start Time, month_end Time, term Number, leader Text;
    USE = department Text, module Text, instance Text, state Text, accounts Number, assigned Number,
        revoking Number, used Number, quota Number, forecast Number = "projected", cost Text,
        forecast_cost Text = "projected_cost";
    WARNINGS = account Text, place Text, used Number, step_end Number, price_beyond Text, forecast Number,
        forecast_cost Text;
    CHANGES = key Text, created Number, changed Number, deleted Number, changes Text;
    MOVES = account Text, from_module Text, from_instance Text, to_module Text, to_instance Text,
        avoided Text, reason Text wide;
    SIMULATED = instructions Number, accounts Number, least_cost Text;
    MONTHS = month Text, cost Text, moves Number, refused Number;
    COLUMNS = department Text, module Text, account Text, quota Text, tiers Text, places Text, weight Text,
        reserve Text, min Text, share Text, lend Text, cap Text, need Text, account_cap Text, turn Text;
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: Verb) -> Result {
    match verb {
        Verb::List => stores::list(context, Noun::Book, BOOKS).await,
        Verb::Get(OfBook { key }) => get(context, key).await,
        Verb::Diff(arguments) => diff(context, &arguments).await,
        Verb::Apply(arguments) => apply(context, &arguments).await,
        Verb::Export(book) => export(context, &book).await,
        Verb::Rebalance(book) => {
            let book = book.open(context).await?;
            let moves = values(&book.rebalance(context.dry_run, None).await?);
            let none =
                "nothing to move: at the present rate no instance needs an account that another can spare";
            context.out.list(MOVES, &moves, none)?;
            if context.dry_run {
                context.out.note("dry run: nothing was changed");
            }
            Ok(())
        }
        Verb::Simulate(options) => simulate_month(context, &options),
    }
}

async fn get(context: &Context, key: Option<String>) -> Result {
    let key = key.unwrap_or_else(|| context.settings.book());
    let store = stores::book(context, Some(&key)).await?;
    let book = stores::with_key(store.info().await?.json(), &key);
    let (departments, lines) = (store.usage("department").await?, store.usage("module").await?);
    let modules = store.modules().await?;
    let mut rows = Vec::new();
    for department in &departments {
        let name = department.text("name");
        rows.push(used(department, json!({"department": name})));
        for module in modules.iter().filter(|module| module.text("department") == name) {
            rows.extend(module_rows(module, &lines)?);
        }
    }
    let warnings = warnings(&store.accounts(None).await?)?;
    let sections = [
        Section { name: "use", columns: USE, rows: &rows },
        Section { name: "warnings", columns: WARNINGS, rows: &warnings },
    ];
    context.out.get(BOOK, &book, &sections)?;
    if !warnings.is_empty() {
        context.out.note(
            "The forecast of a module assumes that each instance uses its cheapest accounts first; a warning assumes \
             that the account is used as before.\n`allot book rebalance --dry-run` says what can be done.",
        );
    }
    Ok(())
}

/// A line of use under other fields.
fn used(line: &Record, mut row: Value) -> Value {
    if let (Some(row), Value::Object(line)) = (row.as_object_mut(), line.json()) {
        row.extend(line);
    }
    row
}

/// The lines of a module and of its instances.
fn module_rows(module: &Record, lines: &[Record]) -> Result<Vec<Value>> {
    let name = module.text("module");
    let attached = Record::read_list(module.get("attached")?)?;
    let sum = |field: &str| attached.iter().map(|one| one.get::<u64>(field)).sum::<Result<u64, _>>();
    let state = format!("{} of {} places", module.text("active"), module.text("instances"));
    let row = json!({
        "department": module.text("department"), "module": name, "state": state, "assigned": sum("assigned")?,
        "revoking": sum("revoking")?,
    });
    let line = lines.iter().find(|line| line.text("name") == name);
    let mut rows = vec![line.map_or(row.clone(), |line| used(line, row))];
    for instance in &attached {
        let mut row = used(instance, json!({"department": module.text("department"), "module": name}));
        if let Some(row) = row.as_object_mut() {
            row.remove("target");
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The accounts that will reach their next step in this month, those nearest to it first.
fn warnings(accounts: &[Record]) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for record in accounts {
        // Too little is known about an account without a forecast.
        let Some(forecast) = record.get::<Option<u64>>("projected")? else { continue };
        let (quota, used): (u64, u64) = (record.get("quota")?, record.get("used")?);
        // Prices go by the own month of the account.
        let more = forecast.saturating_sub(used);
        let used: u64 = record.get("since_turn")?;
        let step = next_step(quota, &record.text("tiers"), used);
        if let Some((end, price)) = step.filter(|&(end, _)| used.saturating_add(more) > end) {
            let place = format!("{}/{}", record.text("module"), record.text("instance"));
            let row = json!({
                "account": record.text("account"), "place": place, "used": used, "step_end": end,
                "price_beyond": price, "forecast": forecast, "forecast_cost": record.text("projected_cost"),
            });
            all.push((end.saturating_sub(used), row));
        }
    }
    all.sort_by_key(|(rest, _)| *rest);
    Ok(all.into_iter().map(|(_, row)| row).collect())
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

/// Reads a table, and compares it with the book.
async fn compare(context: &Context, arguments: &Diff) -> Result<(BookStore, String, Difference)> {
    let mut input = input::open(&arguments.file, input::TABLE)?;
    let read = file::read(input.reader()?);
    let Contents { problems, .. } = match &read {
        Ok(contents) => contents,
        Err(error) => return Err(Failure::input(format!("{}: {error:#}", input.name))),
    };
    if problems.count > 0 {
        let text = counted(problems.count as u64, "problem");
        let failure = Failure::input(format!("{}: {text}; nothing was changed", input.name));
        return Err(failure.counted(problems.first.clone(), problems.count));
    }
    let contents = read.map_err(Failure::from)?;
    let key = arguments.book.book.clone().unwrap_or_else(|| context.settings.book());
    let book = stores::book(context, Some(&key)).await?;
    let difference = Difference::from_book(&book, &contents, arguments.instances).await?;
    Ok((book, key, difference))
}

/// What differs, as the row of a change.
fn row(key: &str, difference: &Difference, prune: bool) -> Value {
    let (created, changed) = difference.counts();
    let deleted = if prune { difference.absent() } else { 0 };
    json!({
        "key": key, "created": created, "changed": changed, "deleted": deleted,
        "changes": difference.lines(prune, usize::MAX),
    })
}

async fn diff(context: &Context, arguments: &Diff) -> Result {
    let (_, key, difference) = compare(context, arguments).await?;
    let lines = difference.lines(arguments.prune, SHOWN);
    if context.out.is_table() {
        context.out.text(&as_lines(lines.iter().map(String::as_str)))?;
    } else {
        context.out.get(CHANGES, &row(&key, &difference, arguments.prune), &[])?;
    }
    match difference.changes(arguments.prune) {
        0 => Ok(()),
        count => {
            Err(Failure::no(format!("{} would make the book equal to the table", counted(count, "change"))))
        }
    }
}

async fn apply(context: &Context, arguments: &Apply) -> Result {
    let (prune, Apply { diff, max_delete }) = (arguments.diff.prune, arguments);
    let (book, key, difference) = compare(context, diff).await?;
    if context.out.is_table() {
        difference.lines(prune, SHOWN).iter().for_each(|line| context.out.note(line));
    }
    let row = row(&key, &difference, prune);
    let (created, changed, deleted) = (field(&row, "created"), field(&row, "changed"), difference.absent());
    let deleted = if prune { deleted } else { 0 };
    let said = format!("{created} created, {changed} changed, {deleted} deleted");
    if let Some(most) = max_delete.filter(|most| deleted > *most) {
        let why = format!("the table lacks {deleted} accounts of book '{key}'; nothing was changed");
        return Err(Failure::refused(why).hint(format!("--max-delete is {most}: is the table complete?")));
    }
    let change = format!("change book '{key}': {said}");
    if deleted > 0 {
        context.confirm(&change).await?;
    } else {
        context.proceed(&change)?;
    }
    let total = difference.changes(prune);
    let again = "the same command again does the rest";
    let work = context.work("applying", total, "changes are made", again);
    let done = std::sync::atomic::AtomicU64::new(0);
    let applied = difference
        .apply(&book, prune, |more| {
            work.at(more + done.fetch_add(more, std::sync::atomic::Ordering::Relaxed), total);
        })
        .await;
    drop(work);
    if applied? > 0 {
        tell_leader(context).await?;
    }
    context.out.done(&format!("book '{key}': {said}"), CHANGES, &row)
}

/// Notifies the leader that the inventory has changed. Without the notification the leader notices some seconds later.
async fn tell_leader(context: &Context) -> Result {
    if context.settings.server.zookeeper.is_none() {
        return Ok(());
    }
    let root = context.settings.server.accounts_root.as_deref().unwrap_or("/resource");
    let notified = async {
        let coordinator = context.coordinator().await?;
        let notified = notify(&coordinator, &format!("{root}/{NOTIFY}"), context.settings.limit).await;
        coordinator.close().await;
        Ok::<_, Failure>(notified?)
    };
    notified.await.map_err(|failure| {
        let why = format!("the book is changed, but its leader could not be told: {}", failure.message);
        Failure::new(Cause::Unreachable, why)
            .hint("nothing is to be done: it notices the change within some seconds")
    })
}

async fn export(context: &Context, book: &Book) -> Result {
    let book = book.open(context).await?;
    let mut out = context.out;
    if out.is_table() {
        out.format = crate::output::Format::Csv;
    }
    let mut departments = BTreeMap::new();
    let mut lines = BTreeMap::new();
    for record in book.modules().await? {
        let (module, department): (String, String) = (record.get("module")?, record.get("department")?);
        let settings = ModuleSettings::of(&record);
        let settings = module_settings::COLUMNS.iter().map(|column| (*column, settings.get(column)));
        let names = [("department", Some(department.as_str())), ("module", Some(&module))];
        let row: Value = names.into_iter().chain(settings).collect();
        lines.insert((department.clone(), module.clone()), row);
        departments.insert(module, department);
    }
    let mut rows = out.rows(COLUMNS);
    lines.values().try_for_each(|row| rows.push(row))?;
    let mut cursor = 0;
    loop {
        let (next, page) = book.page(cursor, None).await?;
        for record in page {
            let module: String = record.get("module")?;
            let (quota, tiers) = (record.text("quota"), tiers_of(&record.get::<String>("tiers")?));
            rows.push(&json!({
                "department": departments.get(&module), "module": module, "account": record.text("account"),
                "quota": quota, "tiers": tiers, "account_cap": record.text("cap"), "turn": record.text("turn"),
            }))?;
        }
        rows.flush()?;
        if next == 0 {
            break;
        }
        cursor = next;
    }
    rows.end("the book has no modules")
}

fn simulate_month(context: &Context, options: &Options) -> Result {
    let found = simulate::run(options)?;
    let month = |month, outcome: &Outcomes| {
        json!({
            "month": month,
            "cost": outcome.cost.to_string(),
            "moves": outcome.moves,
            "refused": outcome.refused,
        })
    };
    let all = json!({
        "instructions": found.instructions,
        "accounts": found.accounts,
        "least_cost": found.least.to_string(),
    });
    let months = [month("fixed", &found.fixed), month("rebalanced", &found.rebalanced)];
    context.out.get(SIMULATED, &all, &[Section { name: "months", columns: MONTHS, rows: &months }])
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
