//! Enums whose members have a word for people and a number in encodings: `words!`.
//!
//! ```
//! use allot_core::words;
//!
//! words! {
//!     /// What a light shows. The numbers are part of the encoding.
//!     pub enum Light {
//!         /// Stop.
//!         Red = 0 => "red",
//!         /// Go. (1 was yellow, which no light shows any more.)
//!         Green = 2 => "green",
//!     }
//! }
//!
//! assert_eq!(Light::from_number(2), Some(Light::Green));
//! assert_eq!(Light::from_number(1), None);
//! assert_eq!(Light::parse(b"GREEN"), Some(Light::Green));
//! assert_eq!(Light::Red.word(), "red");
//! assert_eq!(Light::ALL, [Light::Red, Light::Green]);
//! ```

use std::fmt::Debug;

/// An enum that [`words!`](crate::words) defines.
pub trait Words: Copy + Debug + Eq + 'static {
    /// All members, in the order of their definition.
    const MEMBERS: &'static [Self];

    /// The member's number in encodings.
    fn number(self) -> u64;

    /// The member of that number.
    fn from_number(number: u64) -> Option<Self>;

    /// The member's word in requests, replies and messages.
    fn word(self) -> &'static str;

    /// The member of that word, in upper or lower case.
    fn parse(word: &[u8]) -> Option<Self>;
}

/// Defines an enum with `ALL`, `number`, `from_number`, `word`, `parse`, and its encoding: each member with its number
/// and its word. A member is decoded by its number, never by its place in the list. `Clone`, `Copy`, `Debug`,
/// `PartialEq` and `Eq` are derived.
#[macro_export]
macro_rules! words {
    (
        $(#[$attribute:meta])*
        pub enum $Enum:ident {
            $($(#[$member_attribute:meta])* $Member:ident $(= $number:literal)? => $word:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Enum {
            $($(#[$member_attribute])* $Member $(= $number)?,)+
        }

        impl $Enum {
            /// All members, in the order of their definition.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$Member),+];

            /// The member's number in encodings.
            pub const fn number(self) -> u64 {
                self as u64
            }

            /// The member of that number.
            pub const fn from_number(number: u64) -> Option<Self> {
                $(if number == Self::$Member as u64 {
                    return Some(Self::$Member);
                })+
                None
            }

            /// The member's word in requests, replies and messages.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$Member => $word,)+
                }
            }

            /// The member of that word, in upper or lower case.
            pub fn parse(word: &[u8]) -> Option<Self> {
                Self::ALL.into_iter().find(|member| word.eq_ignore_ascii_case(member.word().as_bytes()))
            }
        }

        impl $crate::shared::words::Words for $Enum {
            const MEMBERS: &'static [Self] = &Self::ALL;

            fn number(self) -> u64 {
                self.number()
            }

            fn from_number(number: u64) -> Option<Self> {
                Self::from_number(number)
            }

            fn word(self) -> &'static str {
                self.word()
            }

            fn parse(word: &[u8]) -> Option<Self> {
                Self::parse(word)
            }
        }

        impl $crate::shared::field::Field for $Enum {
            fn encode(&self, out: &mut $crate::shared::codec::Writer) {
                out.unsigned(self.number());
            }

            fn decode(
                reader: &mut $crate::shared::codec::Reader<'_>,
            ) -> Result<Self, $crate::shared::codec::Damaged> {
                let known = Self::from_number(reader.unsigned()?);
                known.ok_or($crate::shared::codec::Damaged(concat!("an unknown number of ", stringify!($Enum))))
            }
        }
    };
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "words! defines public enums")]
mod tests {
    use super::Words;
    use crate::shared::codec::{Damaged, Reader, Writer};
    use crate::shared::field::Field;
    use std::collections::HashSet;

    words! {
        /// Neither in order nor without gaps, as an enum is that has lived for some versions.
        pub enum Aged {
            /// Came last.
            Newest = 7 => "newest",
            /// Came first.
            Oldest = 0 => "oldest",
            /// Between them.
            Middle = 2 => "mid-way",
        }
    }

    /// Every member comes back by its number, by its word and by its bytes, and no two share one of them.
    fn members_come_back<T: Words + Field>() {
        let mut seen = HashSet::new();
        for &member in T::MEMBERS {
            assert!(seen.insert(member.word()), "{member:?} has a word of its own");
            assert_eq!(T::from_number(member.number()), Some(member));
            assert_eq!(T::parse(member.word().as_bytes()), Some(member));
            assert_eq!(T::parse(member.word().to_ascii_uppercase().as_bytes()), Some(member));
            let mut out = Writer::default();
            out.field(&member);
            assert_eq!(Reader::new(&out.bytes).field::<T>(), Ok(member));
        }
        let known = |number: &u64| T::MEMBERS.iter().any(|member| member.number() == *number);
        for unknown in (0..256).filter(|number| !known(number)) {
            assert_eq!(T::from_number(unknown), None);
        }
        assert_eq!(T::parse(b""), None);
    }

    #[test]
    fn members_of_every_enum_come_back() {
        members_come_back::<Aged>();
        members_come_back::<crate::shared::refusal::Code>();
        members_come_back::<crate::seat::request::Adjacent>();
        members_come_back::<crate::seat::request::Orphans>();
        members_come_back::<crate::seat::state::SeatState>();
        members_come_back::<crate::numpool::cells::State>();
        members_come_back::<crate::numpool::event::Cause>();
        members_come_back::<crate::numpool::request::Policy>();
        members_come_back::<crate::conf::conference::State>();
        members_come_back::<crate::conf::conference::Cause>();
        members_come_back::<crate::conf::conference::AssignmentEnd>();
        members_come_back::<crate::conf::unit::UnitState>();
        members_come_back::<crate::conf::state::Policy>();
        members_come_back::<crate::account::record::AccountState>();
        members_come_back::<crate::account::place::Presence>();
    }

    #[test]
    fn a_member_is_decoded_by_its_number_not_by_its_place() {
        assert_eq!(Reader::new(&[2]).field(), Ok(Aged::Middle));
        assert_eq!(Reader::new(&[0]).field(), Ok(Aged::Oldest));
        assert_eq!(Reader::new(&[1]).field::<Aged>(), Err(Damaged("an unknown number of Aged")));
    }
}
