//! `allot conference` and `allot units`: commands on a realm for managers and operators.

mod call_record;
mod conference;
mod create;
mod record_file;
mod records;
mod session;
mod settings;
mod units;

pub(crate) use conference::{Command as ConferenceCommand, run as conference};
pub(crate) use units::{Arguments as UnitsArguments, run as units};
