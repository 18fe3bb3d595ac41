//! The media unit: a node in the coordination service, a lease in Redis, conferences that it is told to have, and
//! media that is a program of the operator's. `copies` decides; `media` runs the programs; `unit` is one incarnation,
//! from its first join to its end.

mod copies;
mod details;
mod media;
mod unit;

use anyhow::{Result, bail};
use tracing::{info, warn};

use crate::daemon::RoleContext as Context;
use allot_runtime::time::now_ms;

use unit::{End, Ends, Unit};

/// The name of this part in logs and probes.
const PART: &str = "cmu";

/// Is a unit until the process shall end. One that had to end its media comes back as another.
pub(crate) async fn run(context: Context) -> Result<()> {
    let Some(host) = context.host(PART).await else { return Ok(()) };
    let mut last = 0;
    let mut ends = Ends::default();
    loop {
        // Not the same twice, also where the clock stands still.
        last = now_ms().max(last + 1);
        let cmu = format!("{host}:{}:{last}", std::process::id());
        info!(cmu, "unit begins");
        let end;
        (end, ends) = Unit::new(&context, cmu.clone(), ends).run().await;
        match end {
            End::Asked => return Ok(()),
            End::Replaced => bail!(
                "unit {cmu} was replaced: another unit joined on host '{host}', and this one has ended all its \
                 conferences. Where several share an address, name each by cmu.host, e.g. {host}/b"
            ),
            End::CutOff => {
                warn!(cmu, "cut off from Redis for too long; all media is ended. Coming back as a new unit");
            }
        }
    }
}
