//! The commands of a book of accounts, typed. Replies that are only printed for people remain [`Record`]s.

use std::ops::Deref;

use redis::Value;

use super::keyed::Keyed;
use crate::connection::Connection;
use crate::error::Error;
use crate::record::Record;

/// Number of accounts that one call lists.
const PAGE: u32 = 1000;

/// The part of an `ACCOUNT.LIST` entry that concerns the assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRow {
    /// Name of the account.
    pub account: String,
    /// Module of the account.
    pub module: String,
    /// Instance to which the account is assigned, if any.
    pub instance: Option<String>,
    /// `free`, `assigned`, `revoking` or `frozen`.
    pub state: String,
    /// Epoch of the account's last assignment.
    pub epoch: u64,
    /// Whether a login with the account is live.
    pub login: bool,
}

/// The part of an `ACCOUNT.INFO` entry of a module that concerns the assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleRow {
    /// Name of the module.
    pub module: String,
    /// Department of the module.
    pub department: String,
    /// Instances of the module, each with its state: `active`, `standby`, `away` or `leaving`.
    pub attached: Vec<(String, String)>,
}

/// Rows of a book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows<T> {
    /// The rows whose names are text.
    pub rows: Vec<T>,
    /// The names of the others, with replacements for what is not UTF-8. No node can have such a name.
    pub unreadable: Vec<String>,
}

impl<T> Rows<T> {
    /// Reads the rows of records. `read` gives `None` for a row whose names are no text; `name` is the field with the
    /// name of the row.
    fn read(
        records: &[Record],
        name: &str,
        read: impl Fn(&Record) -> Result<Option<T>, Error>,
    ) -> Result<Self, Error> {
        let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
        for record in records {
            match read(record)? {
                Some(row) => rows.push(row),
                None => unreadable.push(String::from_utf8_lossy(&record.get::<Vec<u8>>(name)?).into_owned()),
            }
        }
        Ok(Self { rows, unreadable })
    }
}

/// The client of one book. Clones share the connection.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use allot_client::{BookStore, Endpoint, Servers};
///
/// let (endpoint, user) = Endpoint::url("redis://127.0.0.1:6379")?;
/// let connection = Servers { user, ..Servers::new(endpoint, "{book}") }.connection(Duration::ZERO).await?;
/// let book = BookStore::new(connection, "{book}");
/// for module in book.module_rows().await?.rows {
///     println!("{module:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct BookStore(Keyed);

impl Deref for BookStore {
    type Target = Keyed;

    fn deref(&self) -> &Keyed {
        &self.0
    }
}

impl BookStore {
    /// The client of the book at `key`.
    pub fn new(connection: impl Into<Connection>, key: &str) -> Self {
        Self(Keyed::new(connection, key))
    }

    /// The book's record. Creates the book with its defaults if it does not exist.
    pub async fn book(&self) -> Result<Record, Error> {
        self.ask(&self.begin("ACCOUNT.BOOK")).await
    }

    /// The book's record. Does not create the book.
    pub async fn info(&self) -> Result<Record, Error> {
        self.ask(&self.begin("ACCOUNT.INFO")).await
    }

    /// Claims the book for the term of the elected leader. The claim is a write, so a replica that has the claim has
    /// all earlier assignments, too.
    pub async fn claim(&self, term: u64, leader: &str) -> Result<(), Error> {
        self.ask::<Value>(self.begin("ACCOUNT.TERM").arg(term).arg(leader)).await.map(drop)
    }

    /// Sets the instants at which the next calendar months begin, as the leader of a term. Refused with `BADSTATE` if
    /// an operator has set other ends of months.
    pub async fn set_calendar_turns(&self, term: u64, turns: &[i64]) -> Result<(), Error> {
        let mut command = self.begin("ACCOUNT.BOOK");
        self.ask::<Value>(command.arg("TERM").arg(term).arg("TURNS").arg(turns)).await.map(drop)
    }

    /// The records of all modules. The use of the month also names modules that were deleted.
    pub async fn modules(&self) -> Result<Vec<Record>, Error> {
        let usage = self.usage("module").await?;
        let ask = |line: &Record| {
            let mut command = self.begin("ACCOUNT.INFO");
            command.arg("MODULE").arg(line.get::<Vec<u8>>("name")?);
            Ok(command)
        };
        let commands = usage.iter().map(ask).collect::<Result<Vec<_>, Error>>()?;
        let records = self.ask_all(commands).await?.into_iter();
        let known =
            records.filter(|record| !matches!(record, Err(error) if error.code() == Some("NOTFOUND")));
        known.map(|record| Record::read(record?)).collect()
    }

    /// All modules.
    pub async fn module_rows(&self) -> Result<Rows<ModuleRow>, Error> {
        Rows::read(&self.modules().await?, "module", module_row)
    }

    /// A page of accounts from a cursor on, and the cursor of the next, 0 at the end.
    pub async fn page(&self, cursor: u64, module: Option<&str>) -> Result<(u64, Vec<Record>), Error> {
        let module = module.map(|module| ("MODULE", module));
        self.ask(self.begin("ACCOUNT.LIST").arg(module).arg("CURSOR").arg(cursor).arg("COUNT").arg(PAGE))
            .await
    }

    /// The records of all accounts.
    pub async fn accounts(&self, module: Option<&str>) -> Result<Vec<Record>, Error> {
        let (mut cursor, mut all) = (0, Vec::new());
        loop {
            let (next, mut page) = self.page(cursor, module).await?;
            all.append(&mut page);
            if next == 0 {
                return Ok(all);
            }
            cursor = next;
        }
    }

    /// All accounts.
    pub async fn account_rows(&self) -> Result<Rows<AccountRow>, Error> {
        Rows::read(&self.accounts(None).await?, "account", account_row)
    }

    /// Lines of use by `department` or `module`.
    pub async fn usage(&self, by: &str) -> Result<Vec<Record>, Error> {
        let (_, lines): (u64, _) = self.ask(self.begin("ACCOUNT.USAGE").arg("BY").arg(by)).await?;
        Ok(lines)
    }

    /// For each of these accounts, the epochs of its last assignments; none if the account does not exist.
    pub async fn epochs(&self, accounts: &[&str]) -> Result<Vec<Vec<u64>>, Error> {
        let ask = |account: &&str| self.begin("ACCOUNT.HISTORY").arg(*account).clone();
        let commands = accounts.iter().map(ask).collect();
        let epochs = |history: Result<Value, Error>| match history {
            Ok(history) => {
                let assignments = Record::read_list(history)?;
                assignments.iter().map(|assignment| assignment.get("epoch")).collect::<Result<_, _>>()
            }
            Err(error) if error.code() == Some("NOTFOUND") => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        self.ask_all(commands).await?.into_iter().map(epochs).collect()
    }

    /// Rebalances projected use. Returns the moves.
    pub async fn rebalance(&self, dry_run: bool, term: Option<u64>) -> Result<Vec<Record>, Error> {
        let mut command = self.begin("ACCOUNT.REBALANCE");
        command.arg(dry_run.then_some("DRYRUN")).arg(term.map(|term| ("TERM", term)));
        self.ask(&command).await
    }
}

/// A name as text. Nodes of the tree have names in text, so a name that is no text cannot be published.
fn text(record: &Record, field: &str) -> Result<Option<String>, Error> {
    Ok(String::from_utf8(record.get(field)?).ok())
}

fn module_row(record: &Record) -> Result<Option<ModuleRow>, Error> {
    let (Some(module), Some(department)) = (text(record, "module")?, text(record, "department")?) else {
        return Ok(None);
    };
    let mut attached = Vec::new();
    for entry in record.get::<Vec<Record>>("attached")? {
        if let Some(instance) = text(&entry, "instance")? {
            attached.push((instance, entry.get("state")?));
        }
    }
    Ok(Some(ModuleRow { module, department, attached }))
}

fn account_row(record: &Record) -> Result<Option<AccountRow>, Error> {
    let (Some(account), Some(module)) = (text(record, "account")?, text(record, "module")?) else {
        return Ok(None);
    };
    let instance: Option<Vec<u8>> = record.get("instance")?;
    let instance = instance.and_then(|instance| String::from_utf8(instance).ok());
    Ok(Some(AccountRow {
        account,
        module,
        instance,
        state: record.get("state")?,
        epoch: record.get("epoch")?,
        login: record.get::<Option<u64>>("login_epoch")?.is_some(),
    }))
}
