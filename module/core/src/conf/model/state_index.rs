//! Conferences by state, each in the order of their creation.

use super::conference::{Epoch, State};
use std::collections::BTreeMap;

/// Numbers of conferences by the epoch of their creation, for each state.
#[derive(Clone, Debug, Default)]
pub(in crate::conf) struct ByState([BTreeMap<Epoch, u32>; 5]);

impl ByState {
    /// Conferences in that state.
    pub(in crate::conf) fn of(&self, state: State) -> &BTreeMap<Epoch, u32> {
        let [waiting, creating, open, pending, ended] = &self.0;
        match state {
            State::Waiting => waiting,
            State::Creating => creating,
            State::Open => open,
            State::Pending => pending,
            State::Ended => ended,
        }
    }

    /// Conferences in that state, to be changed.
    pub(in crate::conf) fn of_mut(&mut self, state: State) -> &mut BTreeMap<Epoch, u32> {
        let [waiting, creating, open, pending, ended] = &mut self.0;
        match state {
            State::Waiting => waiting,
            State::Creating => creating,
            State::Open => open,
            State::Pending => pending,
            State::Ended => ended,
        }
    }
}
