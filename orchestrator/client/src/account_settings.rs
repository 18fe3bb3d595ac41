//! The commands of operators that change the settings of a book, its modules, departments and tariffs.

use std::time::Duration;

use redis::ToRedisArgs;

use crate::accounts::BookStore;
use crate::arguments::{milliseconds, option};
use crate::error::Error;
use crate::record::Record;

/// Settings of a book; `None` keeps a value. docs/accounts.md explains them under `ACCOUNT.BOOK`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BookChanges {
    /// The most instructions of an account in a month; 0 for no limit.
    pub cap: Option<u64>,
    /// How long an account stays with an instance before rebalancing may move it.
    pub dwell: Option<Duration>,
    /// The most moves by rebalancing of an account in a day.
    pub max_moves: Option<u32>,
    /// The least cost that a move must avoid, a decimal.
    pub margin: Option<String>,
    /// Modules exchange accounts if so many levels of their departments are the same; 0 for all levels.
    pub lend_level: Option<u32>,
    /// About how many entries the event stream keeps; 0 for no stream.
    pub events: Option<u32>,
}

/// Settings of a module. `None` keeps a value; docs/accounts.md has the values of a new module under
/// `ACCOUNT.MODULE`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleChanges {
    /// The department, with the departments that contain it: `a/b/c`.
    pub department: String,
    /// How many instances hold a share at once.
    pub places: u32,
    /// Weight when accounts without a module are distributed.
    pub weight: Option<u32>,
    /// How many accounts are kept free for replacements.
    pub reserve: Option<u32>,
    /// How many accounts an active instance keeps.
    pub min: Option<u32>,
    /// `places` or `present`: how the accounts are divided.
    pub share: Option<String>,
    /// How long an account is free before it is lent.
    pub lend: Option<Duration>,
    /// The most instructions in a month; 0 for no limit.
    pub cap: Option<u64>,
}

impl BookStore {
    /// Changes settings of the book, which is created if it does not exist. Returns its record.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn configure(&self, changes: &BookChanges) -> Result<Record, Error> {
        let mut command = self.begin("ACCOUNT.BOOK");
        option(&mut command, "CAP", changes.cap);
        option(&mut command, "DWELL", changes.dwell.map(milliseconds));
        option(&mut command, "MAXMOVES", changes.max_moves);
        option(&mut command, "MARGIN", changes.margin.as_deref());
        option(&mut command, "LENDLEVEL", changes.lend_level);
        option(&mut command, "EVENTS", changes.events);
        Record::read(self.ask(&command).await?)
    }

    /// The record of a module; `None` if there is no such module.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn module(&self, module: &str) -> Result<Option<Record>, Error> {
        match self.ask(self.begin("ACCOUNT.INFO").arg("MODULE").arg(module)).await {
            Ok(record) => Record::read(record).map(Some),
            Err(error) if error.code() == Some("NOTFOUND") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Defines a module, or changes it. Returns its record.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn set_module(&self, module: &str, changes: &ModuleChanges) -> Result<Record, Error> {
        let mut command = self.begin("ACCOUNT.MODULE");
        command.arg(module).arg("DEPARTMENT").arg(&changes.department);
        option(&mut command, "INSTANCES", Some(changes.places));
        option(&mut command, "WEIGHT", changes.weight);
        option(&mut command, "RESERVE", changes.reserve);
        option(&mut command, "MIN", changes.min);
        option(&mut command, "SHARE", changes.share.as_deref());
        option(&mut command, "LEND", changes.lend.map(milliseconds));
        option(&mut command, "CAP", changes.cap);
        Record::read(self.ask(&command).await?)
    }

    /// Deletes a module that has neither accounts nor instances.
    ///
    /// # Errors
    /// Any [`Error`] of a request; `BADSTATE` if the module has accounts or instances.
    pub async fn delete_module(&self, module: &str) -> Result<(), Error> {
        self.ask(self.begin("ACCOUNT.DELMODULE").arg(module)).await
    }

    /// Limits the instructions of a department in a month; 0 for no limit. Returns its record.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn cap_department(&self, department: &str, cap: u64) -> Result<Record, Error> {
        let mut command = self.begin("ACCOUNT.DEPARTMENT");
        command.arg(department).arg("CAP").arg(cap);
        Record::read(self.ask(&command).await?)
    }

    /// Gives the ends of months back to leaders, which set them to the beginnings of calendar months.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn set_calendar_months(&self) -> Result<Record, Error> {
        Record::read(self.ask(self.begin("ACCOUNT.BOOK").arg("MONTHS")).await?)
    }

    /// Records that the platform froze an account, which can be used again at `until` (milliseconds since 1970), or
    /// after another request. Returns the record of the account.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn freeze(&self, account: impl ToRedisArgs, until: Option<i64>) -> Result<Record, Error> {
        let mut command = self.begin("ACCOUNT.FREEZE");
        command.arg(account);
        option(&mut command, "UNTIL", until);
        Record::read(self.ask(&command).await?)
    }

    /// Limits the instructions of each of these accounts in a month; 0 for no limit but that of the book. Returns how
    /// many accounts had another limit.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn cap_accounts(&self, cap: u64, accounts: &[impl ToRedisArgs + Sync]) -> Result<u64, Error> {
        let mut command = self.begin("ACCOUNT.LIMIT");
        self.ask(command.arg("CAP").arg(cap).arg("ACCOUNTS").arg(accounts.len()).arg(accounts)).await
    }

    /// Gives accounts a tariff: a quota, and steps, each the number of instructions at which it ends and its price.
    /// Returns how many accounts had another tariff.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn set_tariff(
        &self,
        quota: u64,
        steps: &[(u64, &str)],
        accounts: &[impl ToRedisArgs + Sync],
    ) -> Result<u64, Error> {
        let mut command = self.begin("ACCOUNT.TARIFF");
        command.arg("QUOTA").arg(quota);
        if !steps.is_empty() {
            command.arg("TIERS").arg(steps.len());
            for (upto, price) in steps {
                command.arg(upto).arg(*price);
            }
        }
        self.ask(command.arg("ACCOUNTS").arg(accounts.len()).arg(accounts)).await
    }
}
