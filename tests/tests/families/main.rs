//! What every family of values owes to Redis: its values are keys like any other, they survive replication and
//! restarts, and hostile input does them no harm.

mod accounts_hostile;
mod accounts_keyspace;
mod accounts_replication;
mod conferences_hostile;
mod conferences_keyspace;
mod conferences_replication;
mod persistence;
mod seats_hostile;
mod seats_keyspace;
mod seats_replication;
