//! `make bench-stalls`: for every command that takes a list, a count or a payload, how long another client waits for
//! it at most, and how much of the server's processor it takes.
//!
//! `allot-stalls [WORD]` measures only the groups with this word in their name. `ALLOT_STALLS_ELEMENTS` is the size of
//! the values; the default is 1,000,000.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench reports what is wrong by stopping"
)]

mod accounts;
mod conferences;
mod keys;
mod numbers;
mod probe;
mod seats;

use probe::Probe;

/// Fills values of so many elements on a server of its own, and measures.
type Group = fn(&mut Probe, usize);

fn main() {
    let elements = std::env::var("ALLOT_STALLS_ELEMENTS").ok().and_then(|count| count.parse().ok());
    let elements: usize = elements.unwrap_or(1_000_000);
    let only = std::env::args().nth(1);
    println!(
        "| request, {elements} elements | longest wait of another client, ms | server CPU, ms | reply |"
    );
    println!("|---|---|---|---|");
    let groups: [(&str, Group); 13] = [
        ("seats", seats::regular),
        ("tiers", seats::many_tiers),
        ("flags", seats::flagged),
        ("waiting", seats::waiting),
        ("holds", seats::holds),
        ("zmpop", seats::zmpop),
        ("numbers", numbers::measure),
        ("accounts", accounts::measure),
        ("conferences", conferences::measure),
        ("keys-shows", keys::shows),
        ("keys-pools", keys::pools),
        ("keys-realms", keys::realms),
        ("keys-books", keys::books),
    ];
    for (name, measure) in groups {
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            // A server of its own for each group, so that no group pays for the memory of another.
            measure(&mut Probe::start(), elements);
        }
    }
}
