//! The web console: its API, who may call it, and its pages in a real browser.

use std::time::Duration;

mod accessibility;
mod accounts;
mod actions;
mod alerts;
mod api;
mod colours;
mod comfort;
mod document;
mod found;
mod history;
mod import;
mod lists;
mod many_seats;
mod moves;
mod operators;
mod pages;
mod races;
mod security;
mod tasks;
mod truth;
mod values;

/// Time within which a page shows a change. A machine that is busy with other tests gets more than a second.
const SOON: Duration = Duration::from_secs(30);
