//! Reads a file of accounts: a CSV table with the columns department, module, account, quota and tiers, and optional
//! columns with limits of accounts and settings of modules. A line without an account says only something about its
//! module. The whole file is read, and every problem is reported with its line.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::RangeInclusive;

use allot_core::account::tariff::{self, Amount, Step};
use anyhow::Result;

use super::module_settings::{self, ModuleSettings};
use crate::table::{Problems, Table};

/// The columns before those of settings, of which the first must be there.
const COLUMNS: [&str; 7] = ["department", "module", "account", "quota", "tiers", "account_cap", "turn"];
const REQUIRED: usize = 4;
/// The module's limits: most bytes of a name, most steps of a tariff, last day on which an account turns, most
/// instructions.
const NAME: usize = 256;
const STEPS: usize = 16;
const LAST_TURN: u64 = 28;
const COUNT: u64 = 1 << 53;

/// The price of an account's use: `quota` instructions at the flat price, then steps in the module's form
/// `upto price ...`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tariff {
    pub quota: u64,
    pub tiers: String,
}

impl Tariff {
    /// The steps as separate command arguments.
    pub fn step_arguments(&self) -> Vec<&str> {
        self.tiers.split_whitespace().collect()
    }

    /// The tariff with numbers, which computes costs.
    pub fn priced(&self) -> tariff::Tariff {
        let step = |step: &[&str]| {
            let [upto, price] = step else { return None };
            Some(Step { upto: upto.parse().ok()?, price: Amount::parse_price(price.as_bytes())? })
        };
        tariff::Tariff {
            quota: self.quota,
            steps: self.step_arguments().chunks(2).filter_map(step).collect(),
        }
    }
}

/// The most instructions of an account in a month (0: no limit), and the day on which its month begins. A field that is
/// empty in a file says nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limits {
    pub cap: Option<u64>,
    pub turn: Option<u64>,
}

impl Limits {
    fn read([cap, turn]: [&str; 2]) -> Result<Self, String> {
        let number = |text: &str, range: RangeInclusive<u64>| {
            let number = text.parse().ok().filter(|number| range.contains(number));
            (text.is_empty() || number.is_some()).then_some(number)
        };
        let cap = number(cap, 0..=COUNT).ok_or_else(|| format!("account_cap '{cap}' is no number"))?;
        let turn = number(turn, 1..=LAST_TURN)
            .ok_or_else(|| format!("turn '{turn}' is no day from 1 to {LAST_TURN}"))?;
        Ok(Self { cap, turn })
    }

    /// The arguments of `ACCOUNT.LIMIT`: each word with its value.
    pub fn arguments(self) -> Vec<String> {
        let both = [("CAP", self.cap), ("TURN", self.turn)];
        let given = both.into_iter().filter_map(|(word, value)| Some((word, value?)));
        given.flat_map(|(word, value)| [word.to_owned(), value.to_string()]).collect()
    }
}

/// An account in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub module: String,
    pub tariff: Tariff,
    pub limits: Limits,
    number: u64,
}

/// A module in a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ModuleLine {
    pub department: String,
    pub settings: ModuleSettings,
    /// The line that first names the module.
    number: u64,
}

/// The contents of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Modules by name.
    pub modules: BTreeMap<String, ModuleLine>,
    /// Accounts by name.
    pub accounts: BTreeMap<String, Line>,
    pub problems: Problems,
}

/// Reads a table.
///
/// # Errors
/// The header lacks a column, or has an unknown one.
pub fn read(table: impl Read) -> Result<Contents> {
    let columns = [&COLUMNS[..], &module_settings::COLUMNS].concat();
    let mut table = Table::open(table, &columns, REQUIRED, false)?;
    let mut contents = Contents::default();
    while let Some(line) = table.advance() {
        let taken = line.and_then(|line| {
            let fields = [0, 1, 2, 3, 4, 5, 6].map(|column| table.get(column));
            let settings: Vec<&str> = (fields.len()..columns.len()).map(|column| table.get(column)).collect();
            contents.take(line, fields, &settings).map_err(|why| format!("line {line}: {why}"))
        });
        if let Err(why) = taken {
            contents.problems.add(why);
        }
    }
    Ok(contents)
}

impl Contents {
    fn take(
        &mut self,
        line: u64,
        [department, module, account, quota, tiers, cap, turn]: [&str; 7],
        settings: &[&str],
    ) -> Result<(), String> {
        let is_module = [account, quota, tiers, cap, turn].iter().all(|field| field.is_empty());
        for (name, column) in [(department, COLUMNS[0]), (module, COLUMNS[1]), (account, COLUMNS[2])] {
            let may_be_empty = is_module && column == COLUMNS[2];
            if name.is_empty() && !may_be_empty || name.len() > NAME {
                return Err(format!("{column} '{name}' must be 1 to {NAME} bytes"));
            }
        }
        for (name, column) in [(department, COLUMNS[0]), (module, COLUMNS[1])] {
            if name == "*" {
                return Err(format!("{column} '*' stands for all of them, and names none"));
            }
        }
        if is_module {
            return self.take_module(line, department, module, settings);
        }
        let quota: u64 = quota
            .parse()
            .ok()
            .filter(|quota| *quota <= COUNT)
            .ok_or_else(|| format!("quota '{quota}' is no number of instructions"))?;
        let tariff = Tariff { quota, tiers: steps(quota, tiers)? };
        let limits = Limits::read([cap, turn])?;
        self.take_module(line, department, module, settings)?;
        let entry = Line { module: module.to_owned(), tariff, limits, number: line };
        if let Some(before) = self.accounts.get(account) {
            return Err(format!("account {account} is in line {} already", before.number));
        }
        self.accounts.insert(account.to_owned(), entry);
        Ok(())
    }

    fn take_module(
        &mut self,
        line: u64,
        department: &str,
        module: &str,
        settings: &[&str],
    ) -> Result<(), String> {
        let new = || ModuleLine { department: department.to_owned(), number: line, ..ModuleLine::default() };
        let known = self.modules.entry(module.to_owned()).or_insert_with(new);
        if known.department != department {
            let (other, before) = (&known.department, known.number);
            return Err(format!("module {module} is of {department} here, and of {other} in line {before}"));
        }
        known.settings.take(settings)
    }
}

/// Converts steps from the file's form, `150:0.1 1000:0.5`, to the module's form.
fn steps(quota: u64, text: &str) -> Result<String, String> {
    let (mut steps, mut last) = (Vec::new(), quota);
    for step in text.split([' ', ';']).filter(|step| !step.is_empty()) {
        let wrong = || format!("tier '{step}' must be UPTO:PRICE, e.g. 150:0.1");
        let (upto, price) = step.split_once(':').ok_or_else(wrong)?;
        let upto: u64 = upto.parse().ok().filter(|upto| *upto <= COUNT).ok_or_else(wrong)?;
        if upto <= last {
            return Err(format!("tier '{step}' must go beyond {last}, where the one before it ends"));
        }
        last = upto;
        let price = Amount::parse_price(price.as_bytes()).ok_or_else(wrong)?;
        steps.push(format!("{upto} {price}"));
    }
    if steps.len() > STEPS {
        return Err(format!("{} tiers; there may be {STEPS}", steps.len()));
    }
    Ok(steps.join(" "))
}

/// Converts steps from the module's form to the file's form.
pub fn tiers_of(steps: &str) -> String {
    let fields: Vec<&str> = steps.split_whitespace().collect();
    fields.chunks(2).map(|step| step.join(":")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_and_every_problem_names_its_line() {
        let text = "department,module,account,quota,tiers\n\
                    finance,billing,p1,100,150:0.10 1000:0.5\n\
                    finance,billing,p2,100,\n\
                    sales,billing,p3,100,\n\
                    finance,audit,p1,100,\n\
                    finance,audit,p4,many,\n\
                    finance,audit,p5,100,90:1\n\
                    finance,audit,p6,100,150\n\
                    finance,,p7,100,\n\
                    finance,*,p8,100,\n\
                    *,audit,p9,100,\n";
        let found = read(text.as_bytes()).unwrap();
        assert_eq!(found.accounts.len(), 2);
        let tariff = &found.accounts["p1"].tariff;
        assert_eq!((tariff.quota, tariff.tiers.as_str()), (100, "150 0.1 1000 0.5"));
        assert_eq!(tiers_of(&tariff.tiers), "150:0.1 1000:0.5");
        let lines: Vec<&str> =
            found.problems.first.iter().map(|problem| problem.split(':').next().unwrap()).collect();
        assert_eq!(lines, ["line 4", "line 5", "line 6", "line 7", "line 8", "line 9", "line 10", "line 11"]);
        let first = &found.problems.first[0];
        assert!(first.contains("line 2"), "{first}");
        assert!(read("module,account\n".as_bytes()).unwrap_err().to_string().contains("department"));
    }

    #[test]
    fn limits_of_accounts_are_read_from_columns_that_may_be_missing_or_empty() {
        let text = "department,module,account,quota,turn,account_cap\n\
                    finance,billing,p1,100,15,2000\n\
                    finance,billing,p2,100,,0\n\
                    finance,billing,p3,100,29,\n\
                    finance,billing,p4,100,0,\n\
                    finance,billing,p5,100,,-1\n\
                    finance,billing,,,3,\n";
        let found = read(text.as_bytes()).unwrap();
        let limits = |account: &str| found.accounts[account].limits;
        assert_eq!(limits("p1").arguments(), ["CAP", "2000", "TURN", "15"]);
        assert_eq!(limits("p2").arguments(), ["CAP", "0"]);
        assert_eq!((found.accounts.len(), found.problems.count), (2, 4));
    }

    #[test]
    fn many_problems_are_counted_and_the_first_are_kept() {
        let wrong = "finance,billing,,many\n".repeat(1000);
        let found = read(format!("department,module,account,quota\n{wrong}").as_bytes()).unwrap();
        assert_eq!((found.problems.count, found.problems.first.len()), (1000, 20));
        assert!(found.problems.first[0].starts_with("line 2"), "{}", found.problems.first[0]);
    }

    #[test]
    fn line_without_an_account_sets_up_its_module() {
        let text = "department,module,account,quota,tiers,places,min,share\n\
                    finance,billing,,,,3,2,PRESENT\n\
                    finance,billing,p1,100,,3,,\n\
                    finance,audit,,,,,,\n\
                    finance,billing,p2,100,,4,,\n\
                    finance,billing,,,,many,,\n\
                    finance,billing,,100,,,,\n";
        let found = read(text.as_bytes()).unwrap();
        let problems: Vec<&str> =
            found.problems.first.iter().map(|problem| problem.split(':').next().unwrap()).collect();
        assert_eq!(problems, ["line 5", "line 6", "line 7"]);
        let arguments = found.modules["billing"].settings.arguments();
        assert_eq!(arguments, ["INSTANCES", "3", "MIN", "2", "SHARE", "PRESENT"]);
        assert_eq!(found.modules["audit"].settings, ModuleSettings::default());
        assert_eq!(found.accounts.len(), 1);
    }
}
