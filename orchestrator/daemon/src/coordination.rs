//! Opens the session with the coordination service that the settings name.

use std::sync::Arc;

use allot_coordination::Coordinator;
use allot_coordination::in_process::InProcess;
use allot_coordination::session::Connector;
use tracing::warn;

use crate::config::Config;

/// Opens the session with the coordination service that these settings name. A process with a role creates the directory
/// after the addresses of the servers; a command only reports that it is missing.
pub fn coordinator(config: &Config, has_role: bool) -> Coordinator {
    let connector: Arc<dyn Connector> = if let Some(connector) = &config.connector {
        connector.clone()
    } else if let Some(zookeeper) = &config.zookeeper {
        Arc::new(zookeeper.ensemble.clone().creating_directory(has_role))
    } else {
        warn!(
            "no ZooKeeper is configured: coordination is within this process, and units of other processes are \
             judged by their leases alone. Set zookeeper.servers for more than one machine"
        );
        Arc::new(InProcess::new(config.session()))
    };
    Coordinator::start(connector)
}
