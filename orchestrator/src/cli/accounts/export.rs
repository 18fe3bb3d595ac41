//! `allotd accounts export`: a book as the file that `import` reads.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::file::tiers_of;
use crate::cli::outcome::Outcome;
use crate::cli::terminal;
use crate::config::BookSource;

/// Prints the book as CSV.
pub(super) async fn run(source: &BookSource) -> Result<Outcome> {
    let (_, book) = super::session::open(source).await?;
    let mut departments = BTreeMap::new();
    for record in book.modules().await? {
        departments.insert(record.get::<String>("module")?, record.get::<String>("department")?);
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["department", "module", "account", "quota", "tiers"])?;
    let mut rows = Vec::new();
    for record in book.accounts(None).await? {
        let module: String = record.get("module")?;
        let department = departments.get(&module).cloned().unwrap_or_default();
        let (account, quota): (String, u64) = (record.get("account")?, record.get("quota")?);
        rows.push([
            department,
            module,
            account,
            quota.to_string(),
            tiers_of(&record.get::<String>("tiers")?),
        ]);
    }
    rows.sort();
    for row in rows {
        writer.write_record(row)?;
    }
    let text = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    terminal::write_data(&String::from_utf8(text).context("a name is no text")?).map(|()| Outcome::Done)
}
