//! Events: the changes of a machine, which are replicated, published and counted. `events!` defines the events of a
//! family.
//!
//! An event is defined in one place. A new event needs its definition, and its case in `apply` and in `admits`:
//!
//! ```
//! use allot_core::shared::Bytes;
//! use allot_core::shared::event::MachineEvent;
//! use allot_core::{events, words};
//!
//! words! {
//!     /// Counters in `INFO`.
//!     pub enum Counter {
//!         /// Calls through a gate.
//!         Passed => "gate_passed",
//!     }
//! }
//!
//! events! {
//!     /// One change of a gate.
//!     pub enum Event counted by Counter {
//!         /// The gate was built: the first event of a key.
//!         Built = 1, notice c"allot.gate.built";
//!         /// A person passed the gate, or was refused.
//!         Called {
//!             /// Name of the person.
//!             name: Bytes,
//!             /// Whether the gate opened.
//!             opened: bool,
//!         } = 2,
//!             notice if *opened { c"allot.gate.passed" } else { c"allot.gate.refused" },
//!             count opened.then_some((Counter::Passed, 1));
//!     }
//! }
//!
//! let called = Event::Called { name: Bytes::from_slice(b"ann"), opened: true };
//! assert_eq!((called.notice(), called.name()), (Some(c"allot.gate.passed"), "passed"));
//! assert_eq!(called.counted(), Some((Counter::Passed, 1)));
//! assert_eq!(Event::decode_all(&[2, 3, b'a', b'n', b'n', 1]).unwrap()[0], called);
//! ```
//!
//! The number is the event's kind in the encoding and never changes its meaning. The fields are encoded in their order,
//! as each by its type ([`Field`](super::field::Field)). An event without a `notice` is not published, and an event
//! without a `count` is not counted.

use super::codec::{Damaged, Reader, Writer};
use super::words::Words;
use smallvec::SmallVec;
use std::ffi::CStr;

/// The events of one step; mostly one.
pub type Events<E> = SmallVec<[E; 1]>;

/// An event of a machine: the unit of change and of replication.
pub trait MachineEvent: Sized {
    /// The counters of the family's events in `INFO`; their words are the fields of `INFO`.
    type Counter: Words;

    /// Appends the event's bytes (docs/replication.md). The first is its kind, which never changes meaning.
    fn encode(&self, out: &mut Writer);

    /// Reads one event.
    ///
    /// # Errors
    /// Bytes that no version up to this one writes.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Damaged>;

    /// The event's notification, if it has one.
    fn notice(&self) -> Option<&'static CStr>;

    /// The counter of the event and the amount that it adds; `None` if the event is not counted.
    fn counted(&self) -> Option<(Self::Counter, u64)>;

    /// The event's name in the family's event stream: the last word of its notification.
    fn name(&self) -> &'static str {
        let notice = self.notice().and_then(|notice| notice.to_str().ok()).unwrap_or_default();
        notice.rsplit_once('.').map_or(notice, |(_, name)| name)
    }

    /// Reads events until the bytes end: the payload of an internal command (`SEAT.APPLY` and the like).
    ///
    /// # Errors
    /// As `decode`.
    fn decode_all(payload: &[u8]) -> Result<Events<Self>, Damaged> {
        let mut reader = Reader::new(payload);
        let mut events = Events::new();
        while !reader.is_empty() {
            events.push(Self::decode(&mut reader)?);
        }
        Ok(events)
    }
}

/// Defines the events of a family, as the module's page shows.
#[macro_export]
macro_rules! events {
    (@option) => {
        None
    };
    (@option $value:expr) => {
        ($value).into()
    };
    (
        $(#[$attribute:meta])*
        pub enum $Event:ident counted by $Counter:ident {
            $(
                $(#[$event_attribute:meta])*
                $Kind:ident
                $(($inner:ident: $Inner:ty))?
                $({ $($(#[$field_attribute:meta])* $field:ident: $Type:ty,)+ })?
                = $number:literal
                $(, notice $notice:expr)?
                $(, count $count:expr)?
                ;
            )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $Event {
            $(
                $(#[$event_attribute])*
                $Kind $(($Inner))? $({ $($(#[$field_attribute])* $field: $Type,)+ })?,
            )+
        }

        impl $crate::shared::event::MachineEvent for $Event {
            type Counter = $Counter;

            fn encode(&self, out: &mut $crate::shared::codec::Writer) {
                match self {
                    $(Self::$Kind $(($inner))? $({ $($field,)+ })? => {
                        out.unsigned($number);
                        $(out.field($inner);)?
                        $($(out.field($field);)+)?
                    })+
                }
            }

            fn decode(
                reader: &mut $crate::shared::codec::Reader<'_>,
            ) -> Result<Self, $crate::shared::codec::Damaged> {
                Ok(match reader.unsigned()? {
                    $($number => Self::$Kind
                        $((reader.field::<$Inner>()?))?
                        $({ $($field: reader.field()?,)+ })?,)+
                    _ => {
                        return Err($crate::shared::codec::Damaged(
                            "the kind of event is unknown; was it written by a newer version?",
                        ));
                    }
                })
            }

            #[allow(unused_variables, reason = "most notices do not depend on the event's fields")]
            fn notice(&self) -> Option<&'static std::ffi::CStr> {
                match self {
                    $(Self::$Kind $(($inner))? $({ $($field,)+ })? => $crate::events!(@option $($notice)?),)+
                }
            }

            #[allow(unused_variables, reason = "most counts do not depend on the event's fields")]
            fn counted(&self) -> Option<($Counter, u64)> {
                match self {
                    $(Self::$Kind $(($inner))? $({ $($field,)+ })? => $crate::events!(@option $($count)?),)+
                }
            }
        }

        /// As an event; so an event can be a field of another one.
        impl $crate::shared::field::Field for $Event {
            fn encode(&self, out: &mut $crate::shared::codec::Writer) {
                $crate::shared::event::MachineEvent::encode(self, out);
            }

            fn decode(
                reader: &mut $crate::shared::codec::Reader<'_>,
            ) -> Result<Self, $crate::shared::codec::Damaged> {
                $crate::shared::event::MachineEvent::decode(reader)
            }
        }
    };
}
