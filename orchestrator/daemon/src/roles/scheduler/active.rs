//! The leading scheduler. Each session with Redis begins with a claim of the realm; then the leader observes and acts at
//! every tick. It acts upon an observation only in the session of that observation, and only while leadership holds. In
//! addition, every command that changes assignments carries the term.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{debug, error, info, warn};

use super::failure_detector::{Evidence, FailureDetector, Liveness, Observation};
use super::loss_survey::LossSurvey;
use super::mass_failure_guard::{Decision, Limits, MassFailureGuard, ReleaseReason};
use super::rate_limiter::RateLimiter;
use super::units::{Totals, TotalsMetrics, UnitList, UnitNodes};
use crate::config::SchedulerConfig;
use crate::roles::context::RoleContext as Context;
use allot_client::{Error, RealmStore, Session, UnitRow};
use allot_coordination::Leadership;
use allot_coordination::random;
use allot_runtime::time::now_ms;
use allot_runtime::{LeaderRole, LeaderSession, SessionEnd};

/// The name of this role in logs and probes.
pub(super) const ROLE: &str = "scheduler";
/// The longest time from tick to tick while the rate limit holds recoveries back.
const RATE_LIMITED_TICK: Duration = Duration::from_millis(50);
/// The mean time between two moments at which conferences are recovered in such a tick.
const RECOVERY_PAUSE: Duration = Duration::from_millis(2);
/// The state of a unit that takes conferences.
const UP: &str = "up";
/// The most conferences that one command recovers.
const RECOVERY_BATCH: u32 = 1000;
/// Interval at which `CONF.RECOVER` is sent although no conference waits: a refusal shows that another scheduler has
/// claimed the realm.
const TERM_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the realm's `guard` hash is written while the guard holds.
const GUARD_REFRESH: Duration = Duration::from_secs(1);
/// Time for which the realm's `guard` hash outlives the scheduler that writes it. The scheduler writes it every
/// [`GUARD_REFRESH`] while the guard holds, so a deposed scheduler's last write is soon replaced.
const GUARD_TTL_S: u64 = 10;
/// Time after a claim for which the realm's leases are known well enough to declare units down by them.
const CLAIM_FRESH: Duration = Duration::from_millis(500);
/// The longest lease for which a leader waits: without a session it resigns before a longer lease expires.
const LONGEST_LEASE: Duration = Duration::from_secs(60);

/// The leading scheduler in one term.
pub(super) struct ActiveScheduler<'a> {
    context: &'a Context,
    config: &'a SchedulerConfig,
    nodes: &'a mut UnitNodes,
    leadership: Leadership,
    detector: FailureDetector,
    guard: MassFailureGuard,
    rate: RateLimiter,
    survey: LossSurvey,
    totals_metrics: TotalsMetrics,
    /// The units when they were last listed in this session.
    units: Option<Arc<UnitList>>,
    /// How many conferences waited for recovery at the last tick of this session.
    pending: Option<u64>,
    /// The time of the last `CONF.RECOVER` of this session.
    recover_sent: Option<Instant>,
    /// Whether this term has reported the live units to the realm.
    begun: bool,
    /// The time of the last claim of the realm.
    claimed: Instant,
    /// The time of the last observation of units.
    observed: Instant,
    /// Whether the rate limit alone holds recoveries back.
    rate_limited: bool,
    /// The time since which the guard holds, in milliseconds since 1970, and the time of the last write of the realm's
    /// `guard` hash.
    held: Option<(u64, Instant)>,
    /// Whether the log says already that this user may not ask replicas for confirmation.
    warned_of_wait: bool,
}

impl<'a> ActiveScheduler<'a> {
    pub(super) fn new(context: &'a Context, nodes: &'a mut UnitNodes, leadership: Leadership) -> Self {
        let config = &context.config.scheduler;
        let limits = Limits {
            percent: config.guard_percent,
            units: config.guard_units,
            window: config.guard_window,
            lift: config.guard_lift,
        };
        Self {
            context,
            config,
            nodes,
            leadership,
            detector: FailureDetector::new(config.grace, context.config.session()),
            guard: MassFailureGuard::new(limits),
            rate: RateLimiter::new(config.pace, config.burst),
            survey: LossSurvey::default(),
            totals_metrics: TotalsMetrics::new(),
            units: None,
            pending: None,
            recover_sent: None,
            begun: false,
            claimed: Instant::now(),
            observed: Instant::now(),
            rate_limited: false,
            held: None,
            warned_of_wait: false,
        }
    }

    fn term(&self) -> u64 {
        self.leadership.term().0
    }

    fn store(&self, session: &Session) -> RealmStore {
        RealmStore::new(session.connection.clone(), &self.context.config.realm)
    }
}

impl LeaderRole for ActiveScheduler<'_> {
    fn reset_command(&self) -> String {
        format!("`allot redis CONF.TERM {} 0 operator FORCE`", self.context.config.realm)
    }

    /// Claims the realm, and has every unit report. The claim restarts all leases: heartbeats that were sent while the
    /// server was away were lost. A new term also reports the live units to the realm.
    async fn begin(
        &mut self,
        leader: &mut LeaderSession<'_>,
        session: &mut Session,
    ) -> Result<(), SessionEnd> {
        let (store, term) = (self.store(session), self.term());
        self.claim(&store).await?;
        self.detector.forget();
        (self.units, self.pending, self.recover_sent) = (None, None, None);
        // All leases restart, so even dead units look alive for one lease.
        self.guard.store_failed(self.claimed);
        if self.begun {
            info!(term, "realm claimed again on a new connection");
        } else {
            self.context.health.not_ready(ROLE, "the units in ZooKeeper are not known yet");
            let live = leader
                .while_leading(async {
                    tokio::select! {
                        biased;
                        live = self.nodes.current(&self.context.coordinator) => live,
                        () = leader.give_up_in_time("the units in ZooKeeper cannot be read") => {
                            Err(allot_coordination::Error::NotLeading)
                        }
                    }
                })
                .await??;
            let live: Vec<String> = live.into_iter().collect();
            // `restart` recovers units without node and lease at once, past failure detector and guard. So no lease may
            // have expired merely because this scheduler waited, or was suspended, after its claim.
            if self.claimed.elapsed() > CLAIM_FRESH {
                leader.wait_until_leading().await?;
                self.claim(&store).await?;
            }
            store.restart(&live, term).await?;
            store.ask::<u64>(&redis::Cmd::del(store.stream("guard"))).await?;
            self.begun = true;
            info!(term, live = live.len(), "realm claimed");
        }
        store.ask_units(None, "LIST").await?;
        Ok(())
    }

    async fn check(&mut self, session: &mut Session) -> Result<(), SessionEnd> {
        // Before the first tick nobody knows whether conferences wait.
        let Some(pending) = self.pending else { return Ok(()) };
        Ok(self.survey.proceed(&self.store(session), pending).await?)
    }

    async fn tick(
        &mut self,
        leader: &mut LeaderSession<'_>,
        session: &mut Session,
    ) -> Result<Duration, SessionEnd> {
        let rate_limited = self.observe_and_act(leader, session).await?;
        let tick = if rate_limited { RECOVERY_PAUSE.min(self.config.tick) } else { self.config.tick };
        // Jitter: schedulers of many realms must not tick in the same instant.
        Ok(tick.mul_f64(random::within(0.8..1.2)))
    }

    async fn event(&mut self) {
        self.nodes.changed().await;
    }

    fn session_ended(&mut self, end: &SessionEnd) {
        if matches!(end, SessionEnd::Redis(_)) {
            self.guard.store_failed(Instant::now());
        }
    }
}

impl ActiveScheduler<'_> {
    /// One tick: observes all units, declares units down, and recovers conferences. Returns whether only the rate limit
    /// holds recoveries back.
    async fn observe_and_act(
        &mut self,
        leader: &mut LeaderSession<'_>,
        session: &mut Session,
    ) -> Result<bool, Error> {
        let store = self.store(session);
        let totals = Totals::read(&store, &self.totals_metrics).await?;
        self.pending = Some(totals.pending);
        let list = match self.units.take().filter(|list| list.is_current(totals)) {
            Some(list) => list,
            None => Arc::new(UnitList::read(&store, totals).await?),
        };
        self.units = Some(list.clone());
        let units = list.rows();
        let (present, followed_since) = self.nodes.snapshot(&self.context.coordinator);
        let now = Instant::now();
        // ZooKeeper may also have failed to answer between two observations.
        if followed_since.is_none_or(|since| since > self.observed) {
            self.guard.store_failed(now);
        }
        self.observed = now;
        self.note_leases(leader, units);
        let evidence = Evidence { now, units, present: &present, followed_since };
        let observation = self.detector.observe(&evidence);
        self.lift_guard(&store, &observation, now).await?;
        match self.guard.decide(&observation, now) {
            Decision::Hold { begun } => {
                if begun {
                    self.guard_holds(&store, &observation).await?;
                }
                metrics::gauge!("allot_scheduler_guard").set(1.0);
                Ok(false)
            }
            Decision::Proceed(down) => {
                metrics::gauge!("allot_scheduler_guard").set(0.0);
                for cmu in &down {
                    // The scheduler does not act upon an old observation; the next tick comes at once.
                    if now.elapsed() > self.config.tick * 4 {
                        break;
                    }
                    self.declare_down(&store, cmu, present.contains(cmu)).await?;
                }
                self.recover(&store, session, &list, &down).await
            }
        }
    }

    /// Adjusts to the leases that units have, which may differ from this process's configuration.
    fn note_leases(&mut self, leader: &mut LeaderSession<'_>, units: &[UnitRow]) {
        let leases =
            || units.iter().filter(|unit| Liveness::of(unit) != Liveness::Down).map(|unit| unit.lease);
        let longest = leases().max().unwrap_or(self.context.config.media_unit.lease).min(LONGEST_LEASE);
        self.guard.set_leases(longest, self.claimed);
        leader.set_longest_lease(leases().filter(|lease| *lease <= LONGEST_LEASE).max().unwrap_or_default());
    }

    async fn declare_down(&self, store: &RealmStore, cmu: &str, has_node: bool) -> Result<(), Error> {
        if self.leadership.check().is_err() {
            return Ok(());
        }
        match store.down(cmu, Some(self.term())).await {
            Ok(()) => {
                warn!(unit = cmu, has_node, "unit declared down: its lease has expired");
                metrics::counter!("allot_scheduler_downs_total").increment(1);
                Ok(())
            }
            // The unit was forgotten, or another run on its host has replaced it, since it was observed. `STALE` may also
            // mean that a later term has claimed the realm: then `CONF.RECOVER`, which follows, is refused as well.
            Err(error) if matches!(error.code(), Some("NOTFOUND" | "STALE")) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Recovers as many conferences as the rate limit of the units allows, some at each of several random moments, so that
    /// units do not start their conferences in lockstep. Returns whether only the rate limit holds more back. If no
    /// conference waits, the command is sent only every [`TERM_CHECK_INTERVAL`].
    async fn recover(
        &mut self,
        store: &RealmStore,
        session: &mut Session,
        list: &UnitList,
        down: &[String],
    ) -> Result<bool, Error> {
        let nothing_waits = self.pending == Some(0) && down.is_empty();
        if nothing_waits && self.recover_sent.is_some_and(|sent| sent.elapsed() < TERM_CHECK_INTERVAL) {
            self.rate_limited = false;
            return Ok(false);
        }
        let targets = list.rows().iter().filter(|unit| unit.state == UP && !down.contains(&unit.cmu));
        let targets: Vec<&str> = targets.map(|unit| unit.cmu.as_str()).collect();
        let begun = Instant::now();
        self.rate.refill(targets.iter().copied(), begun);
        // Without target units nothing can be recovered. The command asks for one conference nevertheless: a refusal
        // shows that another scheduler has claimed the realm.
        let mut recovered = self.recover_part(store, list, u32::from(targets.is_empty())).await?;
        while self.rate_limited && begun.elapsed() < RATE_LIMITED_TICK && self.leadership.check().is_ok() {
            sleep(RECOVERY_PAUSE.mul_f64(random::within(0.0..2.0))).await;
            self.rate.refill(targets.iter().copied(), Instant::now());
            recovered += self.recover_part(store, list, 0).await?;
        }
        if recovered > 0 {
            metrics::counter!("allot_scheduler_grants_total").increment(recovered as u64);
            info!(count = recovered, rate_limited = self.rate_limited, "conferences recovered");
            self.confirm(session).await?;
        }
        Ok(self.rate_limited)
    }

    /// Recovers the conferences of one moment, at least `least`. Returns how many.
    async fn recover_part(
        &mut self,
        store: &RealmStore,
        list: &UnitList,
        mut least: u32,
    ) -> Result<usize, Error> {
        let part = self.rate.part();
        let mut recovered = 0;
        while self.leadership.check().is_ok() {
            let left = part.saturating_sub(recovered as u32);
            let count = self.rate.allowance().min(left).min(RECOVERY_BATCH).max(std::mem::take(&mut least));
            if count == 0 {
                break;
            }
            self.recover_sent = Some(Instant::now());
            let grants = store.recover(count, self.term()).await?;
            for grant in &grants {
                let e164 = String::from_utf8_lossy(&grant.e164);
                debug!(%e164, unit = grant.cmu, epoch = grant.epoch, "conference recovered");
            }
            self.rate.take(&grants);
            if grants.iter().any(|grant| !list.has(&grant.cmu)) {
                // The unit has joined since the list was read. The next refill must know its bucket.
                self.units = None;
            }
            recovered += grants.len();
            self.rate_limited = grants.len() == count as usize;
            if !self.rate_limited {
                break;
            }
        }
        Ok(recovered)
    }

    /// Waits until replicas confirm the new owners. New owners that no replica confirms in time stay: after a failover
    /// such a conference would be recovered once more, with another epoch.
    async fn confirm(&mut self, session: &mut Session) -> Result<(), Error> {
        match session.wait(self.config.wait_replicas, self.config.wait).await {
            Ok(true) => return Ok(()),
            Ok(false) => {
                warn!(replicas = session.replicas, "no replica confirmed the last changes of owner in time");
            }
            Err(error) if error.ends_session() => return Err(error),
            // The ACL does not permit WAIT. Another session would not change that.
            Err(error) if !self.warned_of_wait => {
                warn!(%error, "replicas cannot be asked to confirm changes of owner; permit WAIT to this user");
                self.warned_of_wait = true;
            }
            Err(error) => debug!(%error, "replicas cannot be asked to confirm changes of owner"),
        }
        metrics::counter!("allot_scheduler_unconfirmed_total").increment(1);
        Ok(())
    }

    /// The guard begins to hold: logs it, and writes it to the realm's `guard` hash.
    async fn guard_holds(&mut self, store: &RealmStore, observation: &Observation) -> Result<(), Error> {
        error!(
            silent = observation.silent.len(),
            alive = observation.alive,
            units = names(observation),
            "the mass-failure guard holds: too many units would go down at once. No unit is declared down and no conference is \
             recovered until Redis and ZooKeeper answered without a fault for {:?}, the units are back, or `allot realm lift-guard` is run",
            self.config.guard_lift
        );
        self.write_guard(store, observation, now_ms()).await
    }

    /// Writes the realm's `guard` hash, by which operators see that the guard holds.
    async fn write_guard(
        &mut self,
        store: &RealmStore,
        observation: &Observation,
        since: u64,
    ) -> Result<(), Error> {
        self.held = Some((since, Instant::now()));
        if self.leadership.check().is_err() {
            return Ok(());
        }
        let key = store.stream("guard");
        let mut write = redis::cmd("HSET");
        write.arg(&key).arg("since").arg(since).arg("leader").arg(&self.context.name);
        write.arg("units").arg(names(observation));
        let mut expire = redis::cmd("EXPIRE");
        expire.arg(&key).arg(GUARD_TTL_S);
        for result in store.ask_all(vec![write, expire]).await? {
            // The mass-failure guard holds in this process even if operators cannot see it.
            if let Err(error) = result {
                debug!(%error, "the state of the mass-failure guard cannot be written to the realm");
            }
        }
        Ok(())
    }

    async fn lift_guard(
        &mut self,
        store: &RealmStore,
        observation: &Observation,
        now: Instant,
    ) -> Result<(), Error> {
        if !self.guard.holds() {
            return Ok(());
        }
        let key = store.stream("guard");
        let requested: Option<u64> = store.ask(redis::cmd("HGET").arg(&key).arg(RealmStore::LIFT)).await?;
        // A request that names another time was made for an earlier time.
        let by_operator = self.held.is_some_and(|(since, _)| requested == Some(since));
        let Some(reason) = self.guard.release(observation, by_operator, now) else {
            return match self.held {
                Some((since, written)) if written.elapsed() >= GUARD_REFRESH => {
                    self.write_guard(store, observation, since).await
                }
                _ => Ok(()),
            };
        };
        self.held = None;
        if self.leadership.check().is_ok() {
            store.ask::<u64>(&redis::Cmd::del(key)).await?;
        }
        let silent = observation.silent.len();
        match reason {
            ReleaseReason::UnitsReturned => info!(silent, "mass-failure guard lifted: the units are back"),
            ReleaseReason::StoresAnswer => warn!(
                silent,
                "mass-failure guard lifted: Redis and ZooKeeper answered without a fault for scheduler.guard-lift"
            ),
            ReleaseReason::Operator => warn!(silent, "mass-failure guard lifted by the operator"),
        }
        Ok(())
    }

    /// Claims the realm for this term. A realm that does not exist is created with its defaults first; only that needs
    /// memory, which a server may lack.
    ///
    /// # Errors
    /// `STALE` if a later term has claimed the realm.
    async fn claim(&mut self, store: &RealmStore) -> Result<(), Error> {
        let (term, name) = (self.term(), &self.context.name);
        let claimed = match store.claim(term, name).await {
            Err(error) if error.code() == Some("NOKEY") => {
                store.realm().await?;
                store.claim(term, name).await
            }
            claimed => claimed,
        };
        self.claimed = Instant::now();
        claimed
    }
}

/// The silent units, for people.
fn names(observation: &Observation) -> String {
    observation.silent.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}
