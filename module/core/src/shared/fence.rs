//! Fences a value against former leaders by terms.
//!
//! An elected leader claims its term, and names it in every request. A request with another term is refused with
//! `STALE`, so a former leader changes nothing and learns that it no longer leads.

use super::refusal::{Code, Refusal, refuse};
use super::text::quoted;
use super::token::check_identifier;
use super::{Bytes, Millis};
use crate::invariant;

/// The greatest time that a request may name, in milliseconds since 1970; also the highest term.
pub const MAX_TIME: Millis = 1 << 52;

/// Refuses a request whose term is not the claimed one. A request without a term is not checked: operators send such
/// requests.
///
/// # Errors
/// `STALE` with the claimed term.
pub fn check_term(claimed: u64, term: Option<u64>) -> Result<(), Refusal> {
    match term {
        Some(term) if term != claimed => {
            refuse(Code::Stale, format!("term {term} is not the claimed one, which is {claimed}"))
        }
        _ => Ok(()),
    }
}

/// Checks that a leader may claim a term, and returns the leader's name. Before the first claim the claimed term is 0,
/// without a leader. With `force` the new term may be lower than the claimed one.
///
/// # Errors
/// `ERR` for an invalid name, or a term above [`MAX_TIME`]; `STALE` for a term below the claimed one, or for the
/// claimed term of another leader.
pub fn check_claim(
    (claimed, by): (u64, Option<&[u8]>),
    (term, leader): (u64, &[u8]),
    force: bool,
) -> Result<Bytes, Refusal> {
    check_identifier("leader", leader)?;
    if term > MAX_TIME as u64 {
        return refuse(Code::Err, format!("term must be 0 to {MAX_TIME}, not {term}"));
    }
    let another = by.is_some_and(|by| by != leader);
    if !force && (term < claimed || term == claimed && another) {
        invariant!(by.is_some(), "a term was claimed by somebody");
        let by = quoted(by.unwrap_or_default());
        return refuse(Code::Stale, format!("term {term} is not newer than {claimed}, which {by} claimed"));
    }
    Ok(Bytes::from_slice(leader))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(claimed: (u64, Option<&[u8]>), term: u64, leader: &[u8], force: bool) -> Result<Bytes, Code> {
        check_claim(claimed, (term, leader), force).map_err(|refusal| refusal.code)
    }

    #[test]
    fn a_claim_needs_a_newer_term_or_the_same_leader() {
        let by_a: (u64, Option<&[u8]>) = (7, Some(b"a"));
        assert!(claim((0, None), 0, b"a", false).is_ok());
        assert!(claim(by_a, 7, b"a", false).is_ok());
        assert_eq!(claim(by_a, 7, b"b", false), Err(Code::Stale));
        assert_eq!(claim(by_a, 6, b"a", false), Err(Code::Stale));
        assert!(claim(by_a, 8, b"b", false).is_ok());
        assert!(claim(by_a, 1, b"b", true).is_ok());
        assert_eq!(claim(by_a, 8, b"", false), Err(Code::Err));
        assert_eq!(claim(by_a, MAX_TIME as u64 + 1, b"a", true), Err(Code::Err));
    }

    #[test]
    fn an_order_of_another_term_is_stale() {
        assert!(check_term(7, None).is_ok() && check_term(7, Some(7)).is_ok());
        for term in [6, 8] {
            assert_eq!(check_term(7, Some(term)).map_err(|refusal| refusal.code), Err(Code::Stale));
        }
    }
}
