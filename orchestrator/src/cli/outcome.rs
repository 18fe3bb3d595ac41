//! How a command ends.

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As asked.
    Done,
    /// A check failed.
    CheckFailed,
    /// The input has problems, which were printed.
    InputRefused,
}
