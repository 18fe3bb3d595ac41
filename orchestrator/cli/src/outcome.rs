//! The outcome of a command.

/// The outcome of a command, which determines its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command did its work.
    Done,
    /// A check failed.
    CheckFailed,
    /// The input has problems, which were printed.
    InputRefused,
}
