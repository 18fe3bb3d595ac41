//! One incarnation of a unit. Sessions with Redis come and go, the conferences stay: each session starts with a join, a
//! report of all conferences, and all their details. The incarnation ends before another unit may run its conferences
//! (`exclusivity`).

mod exclusivity;
mod heartbeat;
mod messages;
mod send_ends;
#[cfg(test)]
mod tests;
mod unacknowledged_ends;

use std::future::ready;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, info, warn};

use super::conferences::{ConferenceParams, LocalConferences};
use super::details::{DetailUpdate, Details};
use super::load::LoadMeter;
use super::machine;
use super::media::{Media, MediaEvent, MediaProgram};
use super::name;
use crate::config::MediaUnitConfig;
use crate::roles::context::RoleContext as Context;
use crate::roles::info_stream;
use allot_client::streams::{self, Commands};
use allot_client::{CopyParams, Error, JoinRequest, RealmStore, Session};
use allot_coordination::Membership;
use allot_coordination::node_name;
use allot_runtime::invariant;
use allot_runtime::time::now_ms;
use exclusivity::Exclusivity;
pub(super) use unacknowledged_ends::UnacknowledgedEnds;

/// The name of this role in logs and probes.
pub(super) const ROLE: &str = "media-unit";
/// Pause after an error that reconnecting does not fix.
const PAUSE: Duration = Duration::from_millis(500);
/// Capacity of the queue of media events, and the most events that are handled before anything else gets a turn.
const MEDIA_EVENTS: usize = 1024;
/// How often a unit that drains asks how many conferences are left.
const DRAIN_INTERVAL: Duration = Duration::from_millis(200);
/// How long a report waits for programs that are stopping.
const REPORT_DELAY: Duration = Duration::from_secs(2);

/// The detail that demonstrations write.
const CHATTER: &str = "chatter";

/// Why an incarnation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitEnd {
    /// The process shuts down.
    Shutdown,
    /// Another incarnation has joined on the same host.
    Replaced,
    /// Redis and the coordination service have not confirmed the unit for so long that others may run the conferences.
    CutOff,
}

/// What the unit has to report to the realm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingReport {
    /// The list of conferences.
    List,
    /// The list of conferences, then all details: the unit has joined.
    ListAndDetails,
}

/// A start or stop of media that is no longer in progress.
#[derive(Debug)]
enum Completed {
    /// The media of a conference is ready, or could not start.
    Start {
        /// Number of the conference.
        e164: String,
        /// Which start of the conference's media.
        start: u64,
        /// Why the media could not start.
        result: Result<(), String>,
    },
    /// The media of a conference has ended.
    Stop {
        /// Number of the conference.
        e164: String,
        /// The epochs of the copy that ended, the last one first.
        epochs: Vec<u64>,
        /// Whether the conference is over.
        over: bool,
    },
}

/// One incarnation.
pub(super) struct Unit<'a> {
    context: &'a Context,
    config: &'a MediaUnitConfig,
    cmu: String,
    /// What tells this machine from others.
    machine: Option<String>,
    /// The machine of another unit that wants the host of this one, and is refused.
    conflict: Option<String>,
    /// Why the realm refuses this unit, because another machine has its host.
    refusal: Option<String>,
    conferences: LocalConferences,
    details: Details,
    media: Media,
    load: LoadMeter,
    media_events: mpsc::Receiver<MediaEvent>,
    /// How long the conferences are this unit's alone.
    exclusivity: Exclusivity,
    /// Since when the unit drains: its conferences move away before the process ends.
    draining: Option<Instant>,
    chatter_count: u64,
    /// Whether some details were refused: all are sent again with the next heartbeat.
    details_dirty: bool,
    /// Ends of conferences by people, of earlier incarnations as well.
    ends: UnacknowledgedEnds,
    /// Starts and stops of programs that are in progress; a reply follows each.
    tasks: JoinSet<Completed>,
    /// How many of these tasks are stops.
    stopping: usize,
    /// Conferences whose programs failed for good, which the realm does not know yet: number, epoch and reason.
    failures: Vec<(String, u64, String)>,
    /// The report to send once no stop is in progress, and since when it is pending.
    pending_report: Option<(PendingReport, Instant)>,
    /// Whether no replica confirmed anything when the unit last waited for one.
    replication_unconfirmed: bool,
}

impl<'a> Unit<'a> {
    /// An incarnation that first sends the ends which earlier incarnations left unacknowledged.
    pub(super) fn new(context: &'a Context, cmu: String, ends: UnacknowledgedEnds) -> Self {
        let config = &context.config.media_unit;
        let (sender, media_events) = mpsc::channel(MEDIA_EVENTS);
        let program = MediaProgram {
            argv: config.program.clone(),
            stop_limit: config.stop_limit,
            ready: config.ready.clone(),
            restarts: config.restarts,
        };
        let media = Media::new(program, sender);
        Self {
            context,
            config,
            cmu,
            machine: config.machine.clone().or_else(machine::of_this_host),
            conflict: None,
            refusal: None,
            conferences: LocalConferences::default(),
            details: Details::default(),
            load: LoadMeter::new(config.load_program.clone(), config.lease),
            media_events,
            exclusivity: Exclusivity::new(context, media.watchdog()),
            media,
            draining: None,
            chatter_count: 0,
            details_dirty: false,
            ends,
            tasks: JoinSet::new(),
            stopping: 0,
            failures: Vec::new(),
            pending_report: None,
            replication_unconfirmed: false,
        }
    }

    /// Runs from the first join to the end. Returns the ends that the realm may not know.
    pub(super) async fn run(mut self) -> (UnitEnd, UnacknowledgedEnds) {
        let data = serde_json::json!({ "cmu": self.cmu, "capacity": self.config.capacity }).to_string();
        let dir = self.context.units_dir();
        let membership = self.context.coordinator.join(&dir, &node_name(&self.cmu), data.as_bytes());
        self.exclusivity.follow(self.context, &membership);
        let end = self.serve().await;
        info!(unit = self.cmu, ?end, conferences = self.conferences.len(), "unit ends");
        self.stop_media().await;
        if end != UnitEnd::CutOff {
            self.deregister(end).await;
        }
        leave(membership).await;
        (end, self.ends)
    }

    /// Opens one session after another until the incarnation ends.
    async fn serve(&mut self) -> UnitEnd {
        loop {
            let session = match self.reconnect().await {
                Ok(session) => session,
                Err(end) => return end,
            };
            let began = Instant::now();
            match self.serve_session(session).await {
                Ok(end) => return end,
                Err(error) if error.code() == Some("STALE") => return UnitEnd::Replaced,
                Err(_) if self.is_cut_off() => return UnitEnd::CutOff,
                Err(error) if error.code() == Some("EXISTS") => self.wait_for_host(&error).await,
                Err(error) => {
                    self.context.session_failed(ROLE, &error, began).await;
                    // `session_failed` does not pause during shutdown, but a unit that drains goes on for a while.
                    if self.draining.is_some() {
                        sleep(PAUSE).await;
                    }
                    if !error.ends_session() && error.code() != Some("NOTFOUND") {
                        sleep(PAUSE).await;
                    }
                }
            }
        }
    }

    /// Another machine has a unit of this name. It may be a container that this one replaces, so the unit waits until that
    /// unit has ended, and is not ready meanwhile.
    async fn wait_for_host(&mut self, refusal: &Error) {
        let reason = refusal.to_string();
        if self.refusal.replace(reason.clone()).is_none() {
            warn!(unit = self.cmu, error = reason, "the realm refuses this unit; trying again");
        }
        self.context.health.not_ready(ROLE, reason);
        let mut shutdown = self.context.shutdown.clone();
        tokio::select! { () = sleep(self.config.beat) => {}, () = shutdown.requested() => {} }
    }

    fn has_media(&self) -> bool {
        self.conferences.len() > 0
    }

    /// How long until the media must be ended, if there is media.
    fn left(&self) -> Option<Duration> {
        self.exclusivity.left().filter(|_| self.has_media())
    }

    /// Whether the media must be ended.
    fn is_cut_off(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// Refuses to claim conferences if the media must be ended. A process that was suspended may notice this at any
    /// step; the realm would give back conferences that run elsewhere, and the unit would drop them at once.
    fn check_not_cut_off(&self) -> Result<(), Error> {
        if self.is_cut_off() {
            return Err(Error::Stopped(
                "Redis has not renewed the lease of the unit for too long".to_owned(),
            ));
        }
        Ok(())
    }

    /// Records that Redis renewed the lease by a request which was sent at this time.
    fn note_renewal(&self, sent: Instant) {
        self.exclusivity.note_renewal(sent, self.has_media());
    }

    /// Handles a request for shutdown: ends the unit now, or starts to drain.
    fn start_shutdown(&mut self) -> Option<UnitEnd> {
        if !self.config.drain {
            return Some(UnitEnd::Shutdown);
        }
        info!(unit = self.cmu, conferences = self.conferences.len(), "draining");
        self.draining = Some(Instant::now());
        None
    }

    /// Whether draining takes too long.
    fn drain_is_overdue(&self) -> bool {
        self.draining.is_some_and(|since| since.elapsed() >= self.config.drain_limit)
    }

    /// Reconnects to Redis. Media continues meanwhile, but not so long that others may run the conferences.
    async fn reconnect(&mut self) -> Result<Session, UnitEnd> {
        let context = self.context;
        let connecting = context.reconnect(ROLE);
        tokio::pin!(connecting);
        let mut shutdown = context.shutdown.clone();
        loop {
            if self.is_cut_off() {
                return Err(UnitEnd::CutOff);
            }
            // Ends that the realm does not know would restart those conferences elsewhere.
            let is_done = self.conferences.len() == 0 && self.ends.all_sent();
            if self.drain_is_overdue() || self.draining.is_some() && is_done {
                return Err(UnitEnd::Shutdown);
            }
            let wait = self.left().unwrap_or(PAUSE).min(PAUSE);
            tokio::select! {
                session = &mut connecting => return Ok(session),
                Some(event) = self.media_events.recv() => self.handle_media_event(event),
                () = shutdown.requested(), if self.draining.is_none() => {
                    if let Some(end) = self.start_shutdown() {
                        return Err(end);
                    }
                }
                () = sleep(wait) => {}
            }
        }
    }

    /// One session with Redis; `Ok` only if the incarnation ends.
    async fn serve_session(&mut self, mut session: Session) -> Result<UnitEnd, Error> {
        let store = RealmStore::new(session.connection.clone(), &self.context.config.realm);
        // Before the join: after it, Redis refuses notices of earlier incarnations of this host.
        self.ends.resend_all();
        self.send_ends(&store).await?;
        let sent = Instant::now();
        self.join(&store).await?;
        self.refusal = None;
        self.note_renewal(sent);
        self.pending_report = Some((PendingReport::ListAndDetails, Instant::now()));
        let stream = store.stream(&format!("cmd:{}", self.cmu));
        let mut messages = Commands::read(session.another(streams::BLOCK).await?, stream);
        let mut heartbeat = ticks(self.config.beat);
        let mut chatter = ticks(self.config.chatter.unwrap_or(Duration::from_secs(3600)));
        let mut shutdown = self.context.shutdown.clone();
        let mut drain = ticks(DRAIN_INTERVAL);
        loop {
            if self.is_cut_off() {
                return Ok(UnitEnd::CutOff);
            }
            if let Some(report) = self.report_ready() {
                self.send_report(report, &store, &mut session).await?;
            }
            tokio::select! {
                biased;
                _ = heartbeat.tick() => {
                    session.is_named()?;
                    self.send_heartbeat(&store, &mut session).await?;
                }
                Some(Ok(completed)) = self.tasks.join_next() => self.complete(&store, completed).await?,
                entries = messages.next(), if self.pending_report.is_none() => {
                    self.handle_messages(&store, &mut session, entries?).await?;
                }
                Some(event) = self.media_events.recv() => {
                    self.handle_media_event(event);
                    // Limited: a program that writes all the time must not hold up heartbeats.
                    for _ in 0..MEDIA_EVENTS {
                        let Ok(event) = self.media_events.try_recv() else { break };
                        self.handle_media_event(event);
                    }
                    self.send_ends(&store).await?;
                    self.send_failures(&store).await?;
                    self.send_details(&store).await?;
                }
                _ = chatter.tick(), if self.config.chatter.is_some() => {
                    self.write_chatter();
                    self.send_details(&store).await?;
                }
                () = shutdown.requested(), if self.draining.is_none() => {
                    if let Some(end) = self.start_shutdown() {
                        return Ok(end);
                    }
                }
                _ = drain.tick(), if self.draining.is_some() => {
                    let left = store.leave(&self.cmu).await?;
                    if left == 0 && self.conferences.len() == 0 || self.drain_is_overdue() {
                        return Ok(UnitEnd::Shutdown);
                    }
                }
                // The next batch of details, when there is nothing else to do.
                () = ready(()), if self.details.has_pending() => self.send_details(&store).await?,
            }
        }
    }

    async fn join(&self, store: &RealmStore) -> Result<(), Error> {
        self.check_not_cut_off()?;
        let unit = JoinRequest {
            capacity: self.config.capacity,
            zone: self.config.zone.as_deref(),
            tags: &self.config.tags,
            lease_ms: self.config.lease.as_millis() as u64,
            machine: self.machine.as_deref(),
        };
        match store.join(&self.cmu, &unit).await {
            // The realm does not exist yet: it is created with its defaults, which an operator may change later.
            Err(error) if error.code() == Some("NOKEY") => {
                store.realm().await?;
                store.join(&self.cmu, &unit).await
            }
            result => result,
        }
    }

    /// The pending report, if it can be sent: no stop is in progress, unless the report has waited for `REPORT_DELAY`.
    /// A program that takes long to end must not hold up the report of all other conferences.
    fn report_ready(&self) -> Option<PendingReport> {
        let (report, since) = self.pending_report?;
        (self.stopping == 0 || since.elapsed() >= REPORT_DELAY).then_some(report)
    }

    async fn send_report(
        &mut self,
        report: PendingReport,
        store: &RealmStore,
        session: &mut Session,
    ) -> Result<(), Error> {
        self.send_list(store, session).await?;
        self.pending_report = None;
        if report == PendingReport::ListAndDetails {
            self.details.resend_all();
            self.send_details(store).await?;
            self.context.health.ready(ROLE);
            info!(unit = self.cmu, server = %session.node, conferences = self.conferences.len(), "joined");
        }
        Ok(())
    }

    /// Sends the list of conferences. The realm answers with messages.
    async fn send_list(&mut self, store: &RealmStore, session: &mut Session) -> Result<(), Error> {
        self.check_not_cut_off()?;
        let ended = by_bytes(self.ends.of(&self.cmu));
        let (starting, open) = (by_bytes(self.conferences.starting()), by_bytes(self.conferences.open()));
        let highest = self.conferences.highest();
        let params: Vec<CopyParams<'_>> = self.conferences.params().map(copy_params).collect();
        let sent = Instant::now();
        let reported = store.report(&self.cmu, highest, &ended, &starting, &params, &open).await?;
        self.note_renewal(sent);
        // The report lacks the conferences whose programs failed.
        self.failures.clear();
        metrics::counter!("allot_unit_reports_total").increment(1);
        debug!(unit = self.cmu, ?reported, "reported");
        // Adopted conferences have new owners. If a failover loses the adoption, the unit reports again.
        if reported.adopted > 0 && !self.wait_for_replicas(session).await? {
            warn!(
                unit = self.cmu,
                adopted = reported.adopted,
                "no replica confirmed the adopted conferences in time"
            );
        }
        Ok(())
    }

    fn handle_media_event(&mut self, event: MediaEvent) {
        match event {
            MediaEvent::Detail { e164, start, field, value } if self.media.is_current(&e164, start) => {
                self.details.set(&e164, &field, value);
            }
            MediaEvent::Ended { e164, start }
                if self.media.is_current(&e164, start) && self.accepts_ends() =>
            {
                self.media.stop(&e164);
                self.details.remove(&e164);
                let Some(epochs) = self.conferences.remove(&e164) else {
                    invariant(false, "media ends of a conference that the unit has");
                    warn!(
                        unit = self.cmu,
                        e164, "media ended of a conference that the unit does not have; ignored"
                    );
                    return;
                };
                info!(e164, epoch = epochs.first(), "program exited 0: ended by participants");
                // After a failover the realm may know only an earlier epoch of the copy.
                for epoch in epochs {
                    self.ends.push(&e164, &self.cmu, epoch);
                }
            }
            MediaEvent::Failed { e164, start, reason } if self.media.is_current(&e164, start) => {
                self.media.stop(&e164);
                self.details.remove(&e164);
                let epochs = self.conferences.remove(&e164);
                invariant(epochs.is_some(), "media fails of a conference that the unit has");
                let Some(&epoch) = epochs.as_ref().and_then(|epochs| epochs.first()) else { return };
                warn!(
                    unit = self.cmu,
                    e164, epoch, reason, "the conference's program fails; giving the conference back"
                );
                metrics::counter!("allot_unit_failures_total").increment(1);
                self.failures.push((e164, epoch, reason));
            }
            // An event of earlier media of the conference, or an end during shutdown.
            MediaEvent::Detail { .. } | MediaEvent::Ended { .. } | MediaEvent::Failed { .. } => {}
        }
    }

    /// Whether a program that ends means that people ended the conference. During shutdown a service manager may have
    /// stopped the programs as well. But a unit that drains keeps its programs, so a service manager must be configured
    /// not to stop them, and people go on ending conferences.
    fn accepts_ends(&self) -> bool {
        self.config.drain || !self.context.shutdown.is_requested()
    }

    /// Writes the detail of demonstrations.
    fn write_chatter(&mut self) {
        self.chatter_count += 1;
        for (e164, _) in self.conferences.open() {
            self.details.set(&e164, CHATTER, format!("{} {}", self.chatter_count, now_ms()));
        }
    }

    /// Sends the next batch of new details.
    async fn send_details(&mut self, store: &RealmStore) -> Result<(), Error> {
        let stream = store.stream("info");
        let mut commands = Vec::new();
        for DetailUpdate { e164, seq, mut fields } in self.details.take_batch() {
            // Details of a conference whose media could not start are dropped with it. The target of a move owns the
            // conference only after its ACK: details are sent again after that.
            let Some(epoch) = self.conferences.open_epoch(&e164) else { continue };
            for (field, value) in &mut fields {
                // Names the assignment, so that an observer can tell whose write was accepted.
                if field == CHATTER {
                    *value = format!("{} {epoch} {value}", self.cmu);
                }
            }
            let number = name::bytes(&e164);
            commands.push(info_stream::details(&stream, &number, &self.cmu, epoch, seq, &fields));
        }
        let mut refused = 0;
        for result in store.ask_all(commands).await? {
            match result {
                // A server without memory for details may still have messages for this unit.
                Err(error) if error.ends_session() && error.code() != Some("OOM") => return Err(error),
                Err(error) => {
                    refused += 1;
                    debug!(unit = self.cmu, %error, "details refused");
                }
                Ok(_) => {}
            }
        }
        if refused > 0 {
            metrics::counter!("allot_unit_details_refused_total").increment(1);
            self.details_dirty = true;
        }
        Ok(())
    }
}

/// Conferences by the bytes of their names, as the realm knows them.
fn by_bytes(list: Vec<(String, u64)>) -> Vec<(Vec<u8>, u64)> {
    list.into_iter().map(|(e164, epoch)| (name::bytes(&e164), epoch)).collect()
}

/// What the unit knows about a conference that it runs.
fn copy_params<'a>((e164, params): (&str, &'a ConferenceParams)) -> CopyParams<'a> {
    let ConferenceParams { end, size, priority, request, .. } = params;
    CopyParams { e164: name::bytes(e164), end, size, priority, request }
}

/// Removes the unit's node, if the coordination service answers.
async fn leave(membership: Membership) {
    let _ = timeout(Duration::from_secs(2), membership.leave()).await;
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
