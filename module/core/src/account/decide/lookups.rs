//! Lookups and checks that many requests share.

use std::collections::BTreeSet;

use crate::account::model::place::{Instance, Module};
use crate::account::model::record::Account;
use crate::account::model::state::Book;
use crate::account::outcome::refuse;
use crate::shared::Bytes;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;

/// The most accounts of a batch: moving them takes about 4 milliseconds.
pub const MAX_BATCH: usize = 1_000;

/// Refuses an empty batch and one that is too long.
pub(super) fn check_batch(accounts: &[&[u8]]) -> Result<(), Refusal> {
    if (1..=MAX_BATCH).contains(&accounts.len()) {
        return Ok(());
    }
    refuse(Code::Err, format!("a batch has 1 to {MAX_BATCH} accounts, not {}", accounts.len()))
}

/// The names of a batch, each once, of the accounts that the request changes. All accounts must exist.
pub(super) fn known_once(
    book: &Book,
    accounts: &[&[u8]],
    changes: impl Fn(&Account) -> bool,
) -> Result<Vec<Bytes>, Refusal> {
    check_batch(accounts)?;
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for &name in accounts {
        let account = known_account(book, name)?;
        if seen.insert(name) && changes(account) {
            names.push(account.name.clone());
        }
    }
    Ok(names)
}

/// The account of this name.
///
/// # Errors
/// There is none.
pub fn known_account<'a>(book: &'a Book, account: &[u8]) -> Result<&'a Account, Refusal> {
    book.account_called(account)
        .ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no account {}", quoted(account))))
}

/// The instance of a module, and its number.
///
/// # Errors
/// No such instance is attached to the module.
pub fn known_instance<'a>(
    book: &'a Book,
    id: u32,
    module: &Module,
    instance: &[u8],
) -> Result<(u32, &'a Instance), Refusal> {
    let known = book.find_instance(id, instance).and_then(|id| Some((id, book.indexed_instance(id)?)));
    known.ok_or_else(|| {
        let text = format!("instance {} is not attached to {}", quoted(instance), quoted(&module.name));
        Refusal::new(Code::NotFound, text)
    })
}

/// The module of this name, and its number.
///
/// # Errors
/// There is none.
pub fn known_module<'a>(book: &'a Book, module: &[u8]) -> Result<(u32, &'a Module), Refusal> {
    let known = book.find_module(module).and_then(|id| Some((id, book.indexed_module(id)?)));
    known.ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no module {}", quoted(module))))
}
