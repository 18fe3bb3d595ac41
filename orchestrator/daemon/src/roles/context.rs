//! The context of a role: the process context and all settings.

use std::sync::Arc;

use allot_coordination::node_name;

use crate::config::Config;

/// The context of a role. Dereferences to the process context.
#[derive(Clone)]
pub struct RoleContext {
    /// The process context.
    pub process: allot_runtime::Context,
    /// The settings.
    pub config: Arc<Config>,
}

impl std::ops::Deref for RoleContext {
    type Target = allot_runtime::Context;

    fn deref(&self) -> &Self::Target {
        &self.process
    }
}

impl RoleContext {
    /// The realm's directory in the coordination service.
    pub fn dir(&self) -> String {
        format!("{}/{}", self.config.root, node_name(&self.config.realm))
    }

    /// The directory of units.
    pub fn units_dir(&self) -> String {
        format!("{}/units", self.dir())
    }
}
