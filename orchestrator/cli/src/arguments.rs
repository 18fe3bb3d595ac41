//! Arguments that many verbs have.

use allot_client::{BookStore, RealmStore};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;

use crate::context::Context;
use crate::failure::Result;
use crate::{complete, stores};

/// A key. An empty one is refused: it is an empty variable of a script.
#[derive(Debug, Args)]
pub(crate) struct Key {
    /// The key
    #[arg(add = ArgValueCompleter::new(complete::keys))]
    pub(crate) key: String,
}

/// A key, and a file.
#[derive(Debug, Args)]
pub(crate) struct KeyAndFile {
    /// The key
    #[arg(add = ArgValueCompleter::new(complete::keys))]
    pub(crate) key: String,
    /// The file; - is standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: String,
}

/// A realm.
#[derive(Debug, Default, Args)]
pub(crate) struct Realm {
    /// Key of the realm [default: realm in the settings, or ALLOT_REALM]
    #[arg(long, value_name = "KEY")]
    #[arg(add = ArgValueCompleter::new(complete::realms))]
    pub(crate) realm: Option<String>,
}

impl Realm {
    pub(crate) fn key(&self) -> Option<&str> {
        self.realm.as_deref()
    }

    pub(crate) async fn open(&self, context: &Context) -> Result<RealmStore> {
        stores::realm(context, self.key()).await
    }
}

/// A book.
#[derive(Debug, Default, Args)]
pub(crate) struct Book {
    /// Key of the book [default: book in the settings, or ALLOT_BOOK]
    #[arg(long, value_name = "KEY")]
    #[arg(add = ArgValueCompleter::new(complete::books))]
    pub(crate) book: Option<String>,
}

impl Book {
    pub(crate) async fn open(&self, context: &Context) -> Result<BookStore> {
        stores::book(context, self.book.as_deref()).await
    }
}
