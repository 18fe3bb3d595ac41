//! Systems of many processes: accounts, conferences, the coordination layer under both, and `allotd` as a whole. They
//! are one program because many of their tests mostly wait, for sessions and leases to expire, while others can run.

mod accounts;
mod conference_system;
mod coordination;
mod daemon;
