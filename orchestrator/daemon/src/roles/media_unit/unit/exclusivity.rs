//! How long the conferences of a unit are its own. The scheduler has them opened elsewhere when the lease in Redis has
//! expired and the unit's node is gone, or when the lease has expired for longer than the grace period. So they are the
//! unit's own while either store has confirmed the unit recently enough, and a failover of Redis stops nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::config::Role;
use crate::roles::context::RoleContext as Context;
use allot_coordination::{Coordinator, Membership, Presence};
use allot_runtime::child::watchdog::{Watchdog, WatchdogCommand};
use allot_runtime::time::MonotonicTime;

/// How many times per session timeout the answers of the coordination service are looked at.
const LOOKS: u32 = 20;

/// Until when the media of a unit may run. Answers of the coordination service extend this in the background: a unit
/// that waits for Redis must not lose its media meanwhile.
pub(super) struct Exclusivity {
    state: Arc<Mutex<State>>,
    /// The task that extends the time.
    _keeper: JoinSet<()>,
    /// Whether the unit ends media that may run elsewhere (`media-unit.self-stop`).
    is_limited: bool,
}

struct State {
    coordinator: Coordinator,
    /// Kills all media at the end of the time; `None` if no program is configured.
    watchdog: Option<Watchdog>,
    /// The unit's node; `None` while it proves nothing.
    node: Option<watch::Receiver<Presence>>,
    /// Until when the lease cannot have expired.
    leased_until: Instant,
    /// Until when the node cannot have been removed because its session expired.
    node_until: Option<Instant>,
    /// Media may run until here.
    until: Instant,
    /// How long the lease certainly lives after a request that renewed it was sent.
    lease: Duration,
    /// How long, at least, the scheduler waits for a unit whose node is there.
    grace: Duration,
    /// The longest time that programs get to end before the watchdog kills them.
    stop_limit: Duration,
    /// Half of the time that is left when one request has hung. The other half is for another connection.
    spare: Duration,
}

impl Exclusivity {
    /// `watchdog` kills the media.
    pub(super) fn new(context: &Context, watchdog: Option<Watchdog>) -> Self {
        let (unit, timeout) = (&context.config.media_unit, context.config.servers.timeout);
        let lease = unit.lease.saturating_sub(timeout);
        let state = Arc::new(Mutex::new(State {
            coordinator: context.coordinator.clone(),
            watchdog,
            node: None,
            leased_until: Instant::now(),
            node_until: None,
            until: Instant::now(),
            lease,
            grace: context.config.scheduler.grace,
            stop_limit: unit.stop_limit,
            spare: lease.saturating_sub(unit.beat + timeout) / 2,
        }));
        let mut keeper = JoinSet::new();
        if unit.self_stop {
            keeper.spawn(keep(state.clone()));
        }
        Self { state, _keeper: keeper, is_limited: unit.self_stop }
    }

    /// Takes the unit's node as a sign of life from now on. Without ZooKeeper the node is seen in this process alone, so
    /// it proves something only to a scheduler of this process.
    pub(super) fn follow(&self, context: &Context, membership: &Membership) {
        if !context.standalone || context.config.roles.contains(&Role::Scheduler) {
            self.lock().node = Some(membership.subscribe());
        }
    }

    /// Redis renewed the lease by a request that was sent at this time. An answer that comes after media had to end
    /// does not extend the time: a process that was suspended must notice that its media was killed. A unit without
    /// media gets a new time.
    pub(super) fn note_renewal(&self, sent: Instant, has_media: bool) {
        if self.is_limited {
            let mut state = self.lock();
            if !has_media || Instant::now() < state.until {
                state.leased_until = state.leased_until.max(sent + state.lease);
                state.extend();
            }
        }
    }

    /// How long until the media must begin to end; `None` without a limit.
    pub(super) fn left(&self) -> Option<Duration> {
        self.is_limited.then(|| self.lock().stop_at().saturating_duration_since(Instant::now()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Until when the node, and the patience of the scheduler with it, protect the media.
    fn node_protects_until(&self) -> Option<Instant> {
        self.node_until.map(|until| until.min(self.leased_until + self.grace))
    }

    /// Lets media run for longer, as far as the answers so far allow it.
    fn extend(&mut self) {
        let present = self.node.as_ref().map(|node| *node.borrow());
        if let Some(Presence::Present(session)) = present
            && self.coordinator.session_id() == Some(session)
        {
            self.node_until = self.node_until.max(self.coordinator.trusted_until());
        }
        let until =
            self.node_protects_until().map_or(self.leased_until, |until| until.max(self.leased_until));
        if until > self.until {
            self.until = until;
            if let Some(watchdog) = &self.watchdog {
                watchdog.send(WatchdogCommand::RunUntil(MonotonicTime::from_instant(until)));
            }
        }
    }

    /// When media must begin to end. That is never so early that a store that answers as it should comes too late.
    fn stop_at(&self) -> Instant {
        let earlier = |at: Instant, by: Duration| at.checked_sub(self.stop_limit.min(by)).unwrap_or(at);
        let by_lease = earlier(self.leased_until, self.spare);
        let late_answers = self.coordinator.session_timeout() / 5;
        self.node_protects_until().map_or(by_lease, |until| by_lease.max(earlier(until, late_answers)))
    }
}

/// Extends the time while the coordination service confirms the unit.
async fn keep(state: Arc<Mutex<State>>) {
    loop {
        let pause = lock(&state).coordinator.session_timeout() / LOOKS;
        sleep(pause).await;
        let mut state = lock(&state);
        if Instant::now() < state.until {
            state.extend();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
