//! The state machines of Allot.
