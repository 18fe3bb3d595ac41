//! What all have in common who lead, and write into Redis as long as they do: sessions that end with the lead, when it
//! may be acted, and what is to be done where Redis knows of a later leader, or is out of reach for long.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tracing::{error, warn};

use super::Context;
use allot_client::{Error, Session};
use allot_coordination::{Leadership, LeadershipState};

/// How often is tried again what no reconnect will mend.
const REFUSED: Duration = Duration::from_secs(1);
/// How often it is looked whether a suspended lead goes on.
const SUSPENDED: Duration = Duration::from_millis(20);

/// How a session ended that Redis did not end.
pub enum End {
    /// The lead is over, or the process shall end.
    Over,
    /// Redis refuses our term.
    Refused(Error),
}

/// A part of the daemon that leads.
#[derive(Clone)]
pub struct Leader<'a> {
    context: &'a Context,
    part: &'static str,
    /// The lead.
    pub lead: Leadership,
    /// The length of a lease, by our own settings.
    lease: Duration,
    /// How long a session must last to be of use: in a shorter one all that is done is to begin.
    lasting: Duration,
    /// Until when the last one of use lasted, or since when it leads.
    well: Instant,
}

impl<'a> Leader<'a> {
    /// This part leads by this lead.
    pub fn new(context: &'a Context, part: &'static str, lead: Leadership, lease: Duration) -> Self {
        Self { context, part, lead, lease, lasting: lease, well: Instant::now() }
    }

    /// A session is of use that lasts so long, where that is longer than our own settings say.
    pub fn lasts(&mut self, lease: Duration) {
        self.lasting = self.lease.max(lease);
    }

    /// A session with the master, as soon as there is one; none when the lead is over or the process shall end. Who has
    /// had none of use for long gives the lead up: it may be its own way to Redis that is broken, and another's may not.
    pub async fn session(&self) -> Option<Session> {
        tokio::select! {
            session = self.context.connect(self.part) => session,
            () = self.lead.lost() => None,
            () = self.gives_up("no session with Redis that lasts") => None,
        }
    }

    /// Gives the lead up when there was no session of use for too long.
    pub async fn gives_up(&self, why: &str) {
        sleep(self.lasting.saturating_mul(2).saturating_sub(self.well.elapsed())).await;
        warn!(part = self.part, term = self.lead.term().0, "{why}; giving the lead up");
        self.lead.resign();
    }

    /// Redis was there: what ended the session is something else.
    pub fn heard(&mut self) {
        self.well = Instant::now();
    }

    /// Whether it may be acted now; waits while the lead is suspended.
    pub async fn may_act(&self) -> bool {
        loop {
            if self.context.shutdown.is_requested() {
                return false;
            }
            match self.lead.state() {
                LeadershipState::Leading => return true,
                LeadershipState::Lost => return false,
                LeadershipState::Suspended => sleep(SUSPENDED).await,
            }
        }
    }

    /// Redis knows of a later leader: says so, and what lets us in, and rests.
    pub async fn shut_out(&mut self, refusal: &Error, way_in: &str) {
        self.heard();
        error!(
            part = self.part, term = self.lead.term().0, %refusal,
            "there is a later leader. If ZooKeeper was set up anew and none is left, {way_in} lets us in"
        );
        self.context.health.not_ready(self.part, format!("our term is refused: {refusal}"));
        tokio::select! { () = sleep(REFUSED) => {}, () = self.lead.lost() => {} }
    }

    /// A session was ended by this fault.
    pub async fn session_failed(&mut self, error: &Error, began: Instant) {
        // What broke may have been silent for a time-out before that was noticed.
        if began.elapsed() >= self.lasting + self.context.servers.timeout {
            self.heard();
        }
        self.context.session_failed(self.part, error, began).await;
        // A reply that nobody understands comes again at once.
        if !error.ends_session() {
            sleep(REFUSED).await;
        }
    }
}
