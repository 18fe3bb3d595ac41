//! `allot account`: the accounts of a book.

use allot_client::{BookStore, Record};
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;
use redis::Value as Reply;

use crate::arguments::Book;
use crate::complete;
use crate::context::{Context, values};
use crate::failure::{Failure, Result};
use crate::output::columns;
use crate::time::ahead;

/// Accounts asked for at a time.
const PAGE: u32 = 1000;

/// The verbs of accounts.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the accounts of a book
    #[command(alias = "ls")]
    List(List),
    /// Show an account
    Get(One),
    /// Record that the platform froze an account
    Freeze(Freeze),
    /// Record that an account can be used again
    Unfreeze(One),
    /// Set the most instructions that an account may send in a month, and the day on which its month begins
    Limit(Limit),
    /// Move an account to another module; a live login keeps it until its end
    Move(Move),
    /// End the live login of an account
    Logout(One),
    /// Show the last assignments of an account
    History(One),
}

/// Arguments that name one account.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The account
    #[arg(add = ArgValueCompleter::new(complete::accounts))]
    account: String,
    #[command(flatten)]
    book: Book,
}

/// Arguments of `account list`.
#[derive(Debug, Default, Args)]
pub(crate) struct List {
    /// Only accounts of this module
    #[arg(long)]
    module: Option<String>,
    /// Only accounts in this state
    #[arg(long, value_parser = ["free", "assigned", "revoking", "frozen"])]
    state: Option<String>,
    #[command(flatten)]
    book: Book,
}

/// Arguments of `account freeze`.
#[derive(Debug, Args)]
pub(crate) struct Freeze {
    #[command(flatten)]
    one: One,
    /// It can be used again by itself at this time, or so long from now
    #[arg(long, value_name = "TIME", value_parser = ahead)]
    until: Option<i64>,
}

/// Arguments of `account limit`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("limits").required(true).multiple(true)))]
pub(crate) struct Limit {
    #[command(flatten)]
    one: One,
    /// Instructions; 0 for no limit but that of the book
    #[arg(long, value_name = "N", group = "limits")]
    cap: Option<u64>,
    /// The day of each month of the book on which the account's own month begins, 1 to 28
    #[arg(long, value_name = "DAY", group = "limits", value_parser = clap::value_parser!(u8).range(1..=28))]
    turn: Option<u8>,
}

/// Arguments of `account move`.
#[derive(Debug, Args)]
pub(crate) struct Move {
    #[command(flatten)]
    one: One,
    /// The module
    #[arg(long, value_name = "MODULE")]
    to: String,
}

columns! {
    ACCOUNTS = account Text, state Text, module Text, instance Text, used Number, left Number, quota Number,
        cost Text, terminal Text, until Time, projected Number, projected_cost Text, tiers Text wide,
        step Number wide, cap Number wide, turn Number wide, since_turn Number wide, frozen_until Time wide,
        since Time wide, epoch Text wide, login_epoch Text wide;
    HISTORY = module Text, instance Text, from Time, to Time, epoch Text;
}

async fn info(book: &BookStore, account: &str) -> Result<Record> {
    Ok(Record::read(book.ask(book.begin("ACCOUNT.INFO").arg("ACCOUNT").arg(account)).await?)?)
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: Verb) -> Result {
    match verb {
        Verb::List(arguments) => list(context, &arguments).await,
        Verb::Get(One { account, book }) => {
            let book = book.open(context).await?;
            context.out.get(ACCOUNTS, &info(&book, &account).await?.json(), &[])
        }
        Verb::Freeze(Freeze { one: One { account, book }, until }) => {
            let book = book.open(context).await?;
            info(&book, &account).await?;
            let span = until.map_or_else(String::new, |until| format!(" until {}", context.out.time(until)));
            context.proceed(&format!("freeze account {account}{span}"))?;
            let mut command = book.begin("ACCOUNT.FREEZE");
            command.arg(&account);
            if let Some(until) = until {
                command.arg("UNTIL").arg(until);
            }
            let record = Record::read(book.ask(&command).await?)?.json();
            context.out.done(&format!("account {account} is frozen{span}"), ACCOUNTS, &record)
        }
        Verb::Unfreeze(One { account, book }) => {
            let book = book.open(context).await?;
            info(&book, &account).await?;
            context.proceed(&format!("let account {account} be used again"))?;
            let record = book.ask(book.begin("ACCOUNT.FREEZE").arg(&account).arg("OFF")).await?;
            let record = Record::read(record)?.json();
            context.out.done(&format!("account {account} can be used again"), ACCOUNTS, &record)
        }
        Verb::Limit(arguments) => limit(context, arguments).await,
        Verb::Move(Move { one: One { account, book }, to }) => {
            let book = book.open(context).await?;
            let before = info(&book, &account).await?;
            let from = before.text("module");
            book.ask::<Reply>(book.begin("ACCOUNT.INFO").arg("MODULE").arg(&to)).await?;
            context.proceed(&format!("move account {account} from {from} to {to}"))?;
            book.ask::<Reply>(book.begin("ACCOUNT.MOVE").arg(&to).arg(1).arg(&account)).await?;
            let after = info(&book, &account).await?;
            let said = if after.text("module") == to {
                format!("account {account} is of {to}")
            } else {
                format!("account {account} moves to {to} when its login ends")
            };
            context.out.done(&said, ACCOUNTS, &after.json())
        }
        Verb::Logout(One { account, book }) => logout(context, &account, &book).await,
        Verb::History(One { account, book }) => {
            let book = book.open(context).await?;
            let history = Record::read_list(book.ask(book.begin("ACCOUNT.HISTORY").arg(&account)).await?)?;
            context.out.list(HISTORY, &values(&history), "the account was never assigned")
        }
    }
}

async fn list(context: &Context, List { module, state, book }: &List) -> Result {
    let book = book.open(context).await?;
    let page = async |cursor| {
        let mut command = book.begin("ACCOUNT.LIST");
        for (word, value) in [("MODULE", module), ("STATE", state)] {
            if let Some(value) = value {
                command.arg(word).arg(value);
            }
        }
        let (next, page): (u64, Reply) =
            book.ask(command.arg("CURSOR").arg(cursor).arg("COUNT").arg(PAGE)).await?;
        Ok((next, Record::read_list(page)?))
    };
    context.out.pages(ACCOUNTS, "there are no such accounts", page).await
}

async fn limit(context: &Context, Limit { one: One { account, book }, cap, turn }: Limit) -> Result {
    let book = book.open(context).await?;
    info(&book, &account).await?;
    let mut command = book.begin("ACCOUNT.LIMIT");
    let mut limits = Vec::new();
    if let Some(cap) = cap {
        command.arg("CAP").arg(cap);
        limits.push(format!("the cap {cap}"));
    }
    if let Some(turn) = turn {
        command.arg("TURN").arg(turn);
        limits.push(format!("a month that begins on day {turn}"));
    }
    let limits = limits.join(" and ");
    context.proceed(&format!("give account {account} {limits}"))?;
    book.ask::<Reply>(command.arg("ACCOUNTS").arg(1).arg(&account)).await?;
    let after = info(&book, &account).await?.json();
    context.out.done(&format!("account {account} has {limits}"), ACCOUNTS, &after)
}

async fn logout(context: &Context, account: &str, book: &Book) -> Result {
    let book = book.open(context).await?;
    let before = info(&book, account).await?;
    let Some(epoch) = before.get::<Option<u64>>("login_epoch")? else {
        return Err(Failure::refused(format!("account {account} has no live login")));
    };
    let terminal = before.text("terminal");
    context.confirm(&format!("end the login of {terminal} with account {account}")).await?;
    book.ask::<Reply>(book.begin("ACCOUNT.LOGOUT").arg(account).arg(epoch)).await?;
    let after = info(&book, account).await?.json();
    context.out.done(&format!("the login of {terminal} with account {account} has ended"), ACCOUNTS, &after)
}
