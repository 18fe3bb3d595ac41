//! The media unit: a node in the coordination service, a lease in Redis, the conferences that the realm assigns to the
//! unit, and for each of them a media program of the operator. `conferences` decides what follows from a message;
//! `media` runs the programs; `unit` is one incarnation, from its first join to its end.

mod conferences;
mod details;
mod load;
mod machine;
mod media;
mod name;
mod unit;

#[cfg(feature = "simulation")]
pub use media::simulated;

use anyhow::{Result, bail};
use tracing::{info, warn};

use crate::roles::context::RoleContext as Context;
use allot_runtime::time::now_ms;

use unit::{ROLE, UnacknowledgedEnds, Unit, UnitEnd};

/// Runs a unit until the process shuts down. A unit that is cut off ends its media and joins as a new unit.
pub(crate) async fn run(context: Context) -> Result<()> {
    let Some(host) = context.host(ROLE).await else { return Ok(()) };
    let mut last_started = 0;
    let mut ends = UnacknowledgedEnds::default();
    loop {
        // Two incarnations must differ even if the clock stands still.
        last_started = now_ms().max(last_started + 1);
        let cmu = format!("{host}:{}:{last_started}", std::process::id());
        info!(unit = cmu, "unit begins");
        let end;
        (end, ends) = Unit::new(&context, cmu.clone(), ends).run().await;
        match end {
            UnitEnd::Shutdown => return Ok(()),
            UnitEnd::Replaced => bail!(
                "unit {cmu} was replaced: another unit joined on host '{host}', and this one has ended all its \
                 conferences. If several units share an address, set media-unit.host of each, e.g. {host}/b"
            ),
            UnitEnd::CutOff => {
                warn!(
                    unit = cmu,
                    "Redis has not answered for too long; all media is ended. Joining as a new unit"
                );
            }
        }
    }
}
