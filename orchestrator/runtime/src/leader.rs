//! The loop of a leader. [`campaign`] takes part in an election and leads whenever it is won. [`LeaderSession`] is one
//! leadership term of a role that writes to Redis: while leading, it opens a session, claims the term, ticks, and
//! resigns when no session lasts. A role implements [`LeaderRole`] for its part of a session.

use std::convert::Infallible;
use std::time::Duration;

use allot_client::Session;
use allot_coordination::{Coordinator, Error as CoordinationError, Leadership, LeadershipState, Retries};
use tokio::time::{Instant, sleep};
use tracing::{error, warn};

use super::context::{Context, Shutdown};

/// Pause after an error that reconnecting does not fix.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// Interval at which suspended leadership is checked.
const SUSPENDED_POLL: Duration = Duration::from_millis(20);
/// Interval at which a session checks that its server is still the master, and calls [`LeaderRole::check`].
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A part of the process of which at most one in the cluster leads.
pub trait Candidate: Send {
    /// Leads for one term. Returns when the term has ended or shutdown was requested, or is cancelled then.
    fn lead(&mut self, leadership: Leadership) -> impl Future<Output = ()> + Send;
}

/// Takes part in the election under `dir` until shutdown is requested, and leads whenever elected.
///
/// # Errors
/// The coordinator is closed.
pub async fn campaign(
    coordinator: &Coordinator,
    shutdown: &Shutdown,
    dir: &str,
    name: &str,
    candidate: &mut impl Candidate,
) -> Result<(), CoordinationError> {
    let mut shutdown = shutdown.clone();
    let mut election = coordinator.campaign(dir, name);
    while !shutdown.is_requested() {
        let leadership = tokio::select! {
            leadership = election.elected() => leadership?,
            () = shutdown.requested() => break,
        };
        candidate.lead(leadership).await;
    }
    election.withdraw().await;
    Ok(())
}

/// The reason that a session of a leader ended.
#[derive(Debug)]
pub enum SessionEnd {
    /// The term has ended, or the process shuts down.
    LeadershipEnded,
    /// Redis knows a later term than ours.
    TermRefused(allot_client::Error),
    /// The session with Redis failed.
    Redis(allot_client::Error),
    /// The coordination service did not do what was asked.
    Coordination(CoordinationError),
}

impl From<allot_client::Error> for SessionEnd {
    fn from(error: allot_client::Error) -> Self {
        if error.code() == Some("STALE") { Self::TermRefused(error) } else { Self::Redis(error) }
    }
}

impl From<CoordinationError> for SessionEnd {
    fn from(error: CoordinationError) -> Self {
        match error {
            CoordinationError::NotLeading | CoordinationError::Closed => Self::LeadershipEnded,
            error => Self::Coordination(error),
        }
    }
}

/// The part of a leader's sessions with Redis that differs between roles.
pub trait LeaderRole: Send {
    /// The command by which an operator makes Redis accept our term again, if the election was lost with ZooKeeper's
    /// data and counts from 1 again.
    fn reset_command(&self) -> String;

    /// Starts a session: claims the term, and reads what [`tick`](Self::tick) relies on.
    fn begin(
        &mut self,
        leader: &mut LeaderSession<'_>,
        session: &mut Session,
    ) -> impl Future<Output = Result<(), SessionEnd>> + Send;

    /// Called before the first tick and then once a second.
    fn check(&mut self, session: &mut Session) -> impl Future<Output = Result<(), SessionEnd>> + Send;

    /// Observes and acts once. Returns how long to wait before the next tick, if no [`event`](Self::event) comes.
    fn tick(
        &mut self,
        leader: &mut LeaderSession<'_>,
        session: &mut Session,
    ) -> impl Future<Output = Result<Duration, SessionEnd>> + Send;

    /// Waits for something that calls for the next tick. Is cancelled when that tick comes for another reason.
    fn event(&mut self) -> impl Future<Output = ()> + Send;

    /// A session ended, for this reason.
    fn session_ended(&mut self, end: &SessionEnd);
}

/// One leadership term of a role, over all its sessions with Redis.
pub struct LeaderSession<'a> {
    context: &'a Context,
    part: &'static str,
    leadership: Leadership,
    /// The lease that this process is configured with.
    own_lease: Duration,
    /// The shortest useful session: a shorter session only claims the term and reads.
    useful_length: Duration,
    /// The time at which the last useful session ended, or the term began.
    last_useful: Instant,
}

impl<'a> LeaderSession<'a> {
    /// A term that has just begun. `own_lease` is the lease length of the own configuration.
    pub fn new(
        context: &'a Context,
        part: &'static str,
        leadership: Leadership,
        own_lease: Duration,
    ) -> Self {
        let last_useful = Instant::now();
        Self { context, part, leadership, own_lease, useful_length: own_lease, last_useful }
    }

    /// Sets the longest lease in use: a session is useful if it is at least as long, and as the own lease.
    pub fn set_longest_lease(&mut self, lease: Duration) {
        self.useful_length = self.own_lease.max(lease);
    }

    /// Leads until the term ends or the process shuts down.
    pub async fn run(mut self, role: &mut impl LeaderRole) {
        let mut retries = self.context.coordinator.retries(format!("leading as {}", self.part));
        while let Some(session) = self.open_session().await {
            let began = Instant::now();
            let Err(end) = self.serve(role, session, &mut retries).await;
            self.show_leading(false);
            role.session_ended(&end);
            match end {
                SessionEnd::LeadershipEnded => return,
                SessionEnd::TermRefused(refusal) => self.term_refused(&refusal, &role.reset_command()).await,
                SessionEnd::Redis(error) => self.redis_failed(&error, began).await,
                SessionEnd::Coordination(error) => {
                    self.redis_answered();
                    tokio::select! { () = retries.failed(&error) => {}, () = self.leadership.lost() => {} }
                }
            }
        }
    }

    /// Shows whether Redis has accepted this leader's claim, and no later one: an election alone is not enough, since two
    /// ensembles may elect leaders for one realm or book.
    fn show_leading(&self, leads: bool) {
        metrics::gauge!(format!("allot_{}_leading", self.part)).set(f64::from(u8::from(leads)));
    }

    /// A session with the master, as soon as there is one; `None` when the term ends or the process shuts down. Resigns
    /// after a long time without a useful session: perhaps only this process cannot reach Redis.
    async fn open_session(&self) -> Option<Session> {
        tokio::select! {
            session = self.context.connect(self.part) => session,
            () = self.leadership.lost() => None,
            () = self.give_up_in_time("no session with Redis lasts") => None,
        }
    }

    /// One session, from its claim to its end.
    async fn serve(
        &mut self,
        role: &mut impl LeaderRole,
        mut session: Session,
        retries: &mut Retries,
    ) -> Result<Infallible, SessionEnd> {
        self.wait_until_leading().await?;
        role.begin(self, &mut session).await?;
        self.show_leading(true);
        let mut checked: Option<Instant> = None;
        loop {
            self.wait_until_leading().await?;
            if checked.is_none_or(|checked| checked.elapsed() >= CHECK_INTERVAL) {
                checked = Some(Instant::now());
                session.check_master().await?;
                role.check(&mut session).await?;
            }
            let wait = role.tick(self, &mut session).await?;
            self.context.health.ready(self.part);
            retries.succeeded();
            self.while_leading(async {
                tokio::select! { () = sleep(wait) => {}, () = role.event() => {} }
            })
            .await?;
        }
    }

    /// Waits for this future, but no longer than the term lasts and the process runs.
    ///
    /// # Errors
    /// [`SessionEnd::LeadershipEnded`].
    pub async fn while_leading<T>(&self, future: impl Future<Output = T>) -> Result<T, SessionEnd> {
        let mut shutdown = self.context.shutdown.clone();
        tokio::select! {
            biased;
            () = self.leadership.lost() => Err(SessionEnd::LeadershipEnded),
            () = shutdown.requested() => Err(SessionEnd::LeadershipEnded),
            value = future => Ok(value),
        }
    }

    /// Waits while leadership is suspended.
    ///
    /// # Errors
    /// [`SessionEnd::LeadershipEnded`], also when the process shuts down.
    pub async fn wait_until_leading(&self) -> Result<(), SessionEnd> {
        loop {
            if self.context.shutdown.is_requested() {
                return Err(SessionEnd::LeadershipEnded);
            }
            match self.leadership.state() {
                LeadershipState::Leading => return Ok(()),
                LeadershipState::Lost => return Err(SessionEnd::LeadershipEnded),
                LeadershipState::Suspended => sleep(SUSPENDED_POLL).await,
            }
        }
    }

    /// Resigns once two useful lengths have passed since the last useful session.
    pub async fn give_up_in_time(&self, reason: &str) {
        sleep(self.useful_length.saturating_mul(2).saturating_sub(self.last_useful.elapsed())).await;
        warn!(part = self.part, term = self.leadership.term().0, "{reason}; giving leadership up");
        self.leadership.resign();
    }

    /// Redis answered, so the end of the session is no reason to resign.
    fn redis_answered(&mut self) {
        self.last_useful = Instant::now();
    }

    async fn term_refused(&mut self, refusal: &allot_client::Error, reset_command: &str) {
        self.redis_answered();
        error!(
            part = self.part, term = self.leadership.term().0, %refusal,
            "Redis has seen a later leader; not acting. If ZooKeeper's data was lost and no later leader exists, run \
             {reset_command}"
        );
        self.context.health.not_ready(self.part, format!("our term is refused: {refusal}"));
        tokio::select! { () = sleep(REFUSED_PAUSE) => {}, () = self.leadership.lost() => {} }
    }

    async fn redis_failed(&mut self, error: &allot_client::Error, began: Instant) {
        // The connection may have been silent for one time-out before the failure was noticed.
        if began.elapsed() >= self.useful_length + self.context.servers.timeout {
            self.redis_answered();
        }
        self.context.session_failed(self.part, error, began).await;
        // A reply that could not be understood would come again at once.
        if !error.ends_session() {
            sleep(REFUSED_PAUSE).await;
        }
    }
}
