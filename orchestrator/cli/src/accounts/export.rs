//! `allot accounts export`: a book as the file that `import` reads. Each module has a line with its settings, before
//! the lines of its accounts.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use crate::outcome::Outcome;
use crate::sources::BookSource;
use crate::terminal;
use allot_tools::accounts::file::tiers_of;
use allot_tools::accounts::module_settings::{ModuleSettings, SETTINGS};

/// Prints the book as CSV.
pub(super) async fn run(source: &BookSource) -> Result<Outcome> {
    let (_, book) = super::session::open(source).await?;
    let (mut departments, mut rows) = (BTreeMap::new(), Vec::new());
    for record in book.modules().await? {
        let (module, department): (String, String) = (record.get("module")?, record.get("department")?);
        let settings = ModuleSettings::of(&record);
        let mut row = vec![department.clone(), module.clone(), String::new(), String::new(), String::new()];
        row.extend(SETTINGS.iter().map(|setting| settings.value(setting).to_owned()));
        rows.push(row);
        departments.insert(module, department);
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    let columns = ["department", "module", "account", "quota", "tiers"].into_iter();
    writer.write_record(columns.chain(SETTINGS.iter().map(|setting| setting.column)))?;
    for record in book.accounts(None).await? {
        let module: String = record.get("module")?;
        let department = departments.get(&module).cloned().unwrap_or_default();
        let (account, quota): (String, u64) = (record.get("account")?, record.get("quota")?);
        let tiers = tiers_of(&record.get::<String>("tiers")?);
        let mut row = vec![department, module, account, quota.to_string(), tiers];
        row.resize(row.len() + SETTINGS.len(), String::new());
        rows.push(row);
    }
    rows.sort();
    for row in rows {
        writer.write_record(row)?;
    }
    let text = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    terminal::write_data(&String::from_utf8(text).context("a name is no text")?).map(|()| Outcome::Done)
}
