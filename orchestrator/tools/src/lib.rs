//! Loading and moving: what `allot` does with files, caches and trees of earlier systems. The functions print nothing.

pub mod upgrade;
