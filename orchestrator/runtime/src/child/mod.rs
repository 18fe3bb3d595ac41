//! Child processes: programs of operators that must not outlive the process that supervises them.

pub mod program;
pub mod watchdog;
