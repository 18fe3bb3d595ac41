//! The context of a role: the process context and all settings; and how roles take refusals of Redis.

use std::sync::Arc;

use allot_client::Error;
use allot_coordination::node_name;
use tracing::debug;

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

/// The answer to a request; `None` if the server refused the request, which is logged. An error that ends the session is
/// passed on.
pub(crate) fn unless_refused<T>(answer: Result<T, Error>, request: &str) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.ends_session() => Err(error),
        Err(error) => {
            debug!(%error, request, "refused");
            Ok(None)
        }
    }
}
