//! A typed client of Allot's commands, for any Rust program that uses tokio.
//!
//! - [`Servers`] finds a master: at an address, through Sentinels, or in a cluster by the slot of a key; over TCP or TLS,
//!   as an ACL user. [`Servers::connection`] is for single requests. [`Servers::session`] is for programs that decide by
//!   what they read: a [`Session`] is one master, and it ends with that master, so that no decision crosses a failover.
//! - [`SeatStore`], [`NumberStore`], [`RealmStore`] and [`BookStore`] have the commands of one key each. A command that has
//!   no method of its own is sent with [`Keyed::begin`] and [`Keyed::ask`].
//! - [`streams`] reads event streams.
//! - Every error is an [`Error`]; [`Error::code`] is the server's code of a refusal, such as `NOTFOUND`.
//!
//! Hold seats for a buyer, and sell them:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use allot_client::{Endpoint, HoldRequest, SeatChoice, SeatStore, Servers};
//!
//! let (endpoint, user) = Endpoint::url("redis://127.0.0.1:6379")?;
//! let session = Servers { user, ..Servers::new(endpoint, "show:1") }.session().await?;
//! let show = SeatStore::new(session.connection.clone(), "show:1");
//! let choice = SeatChoice { tier: Some("gold"), ..SeatChoice::default() };
//! let (user, token) = ("ann", Some("order-7"));
//! let request = HoldRequest { user, count: 2, ttl_ms: 60_000, choice, token, ..HoldRequest::default() };
//! match show.hold(&request).await? {
//!     Some(hold) => println!("sold {}: {:?}", show.confirm(&hold.token, Some("order-7")).await?, hold.seats),
//!     None => println!("sold out"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! After a lost reply, send the same request with the same token again: the reply is the same.
//!
//! The example `seats` holds and sells a seat under a token and follows the event stream.

#![warn(clippy::disallowed_types)]

mod account_logins;
mod accounts;
mod address;
mod conferences;
mod connection;
mod dial;
mod endpoint;
mod error;
mod keyed;
mod numbers;
mod record;
mod seats;
mod sentinels;
mod servers;
mod session;
pub mod streams;

pub use account_logins::{Confirmation, Login};
pub use accounts::{AccountRow, BookStore, ModuleRow, Rows};
pub use address::without_password;
pub use conferences::{
    CopyParams, CreateRequest, Grant, JoinRequest, PlannedMove, RESERVED_DETAILS, RealmStore, Reported,
    UnitRow, UnitStatus,
};
pub use connection::{Connection, connect, query, query_all};
pub use dial::{Dial, Transport};
pub use endpoint::{Endpoint, Node, Secret};
pub use error::Error;
pub use keyed::Keyed;
pub use numbers::{
    CallRequest, Cap, Cause, Heartbeat, Lease, ListOutcome, LiveLease, NumberInfo, NumberStore, PoolInfo,
    SwitchInfo,
};
pub use record::{Record, to_json};
pub use seats::{
    Bucket, FindRequest, Hold, HoldRequest, ListFilter, Listed, MapRow, PickRequest, Sale, SeatBlock,
    SeatChoice, SeatStore, WaitRequest,
};
pub use servers::Servers;
pub use session::Session;
