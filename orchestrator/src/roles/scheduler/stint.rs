//! A stint of leadership: claims the realm, learns who is alive, and then keeps time, tick by tick, in sessions with
//! Redis of which each begins with a claim. What is read in a session is acted upon in that session only, and only
//! while the lead holds; besides, every command carries the term.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tracing::{debug, error, info, warn};

use super::brake::{Brake, Lifted, Limits, Word};
use super::nodes::Nodes;
use super::pace::Pace;
use super::verdicts::{Evidence, Judge, Look};
use super::{LIFT, PART};
use crate::config::ConferenceConfig;
use crate::daemon::RoleContext as Context;
use allot_client::{Error, RealmStore, Session, UnitRow};
use allot_coordination::Leadership;
use allot_coordination::random;
use allot_runtime::time::now_ms;
use allot_runtime::{End, Leader};

/// How soon the next look is while conferences wait for their unit's pace.
const PACED: Duration = Duration::from_millis(50);
/// How often it is looked whether the server is still the master, and the totals are measured.
const LOOK: Duration = Duration::from_secs(1);
/// How long after a claim it is known whose leases are good, for a decision that goes by that.
const FRESH: Duration = Duration::from_millis(500);
/// A lease that is longer is waited for by nobody: a leader without a session gives its lead up before it is over.
const LONGEST: Duration = Duration::from_secs(60);
/// How long the realm's `brake` outlives the scheduler that keeps it there. While the brake holds it is written at each
/// [`LOOK`], so that whatever a deposed scheduler does to it is mended by the next.
const BRAKE_TTL_S: u64 = 10;

/// One stint.
pub(super) struct Stint<'a> {
    context: &'a Context,
    config: &'a ConferenceConfig,
    nodes: &'a mut Nodes,
    leader: Leader<'a>,
    judge: Judge,
    brake: Brake,
    pace: Pace,
    /// Whether this term has begun: the realm was told who is alive.
    begun: bool,
    /// When the realm was claimed last.
    claimed: Instant,
    /// When we looked last.
    looked: Instant,
    /// Whether more conferences wait for nothing but their units' pace.
    paced: bool,
    /// Since when the brake holds, in milliseconds since 1970, and when people were shown that last.
    held: Option<(u64, Instant)>,
    /// Whether it was said that our rules do not let us ask replicas.
    unasked: bool,
}

impl<'a> Stint<'a> {
    pub(super) fn new(context: &'a Context, nodes: &'a mut Nodes, lead: Leadership) -> Self {
        let config = &context.config.conference;
        let limits = Limits {
            percent: config.brake_percent,
            least: config.brake_least,
            window: config.brake_window,
            lift: config.brake_lift,
        };
        Self {
            context,
            config,
            nodes,
            leader: Leader::new(context, PART, lead, context.config.cmu.lease),
            judge: Judge::new(config.grace, context.config.session()),
            brake: Brake::new(limits),
            pace: Pace::new(config.pace, config.burst),
            begun: false,
            claimed: Instant::now(),
            looked: Instant::now(),
            paced: false,
            held: None,
            unasked: false,
        }
    }

    /// Leads until it is over.
    pub(super) async fn run(mut self) {
        loop {
            let Some(session) = self.leader.session().await else { return };
            let began = Instant::now();
            match self.serve(session).await {
                Ok(End::Over) => return,
                Ok(End::Refused(refusal)) => {
                    self.leader.shut_out(&refusal, "`allotd conference unclaim`").await;
                }
                Err(error) => {
                    self.brake.unwell(Instant::now());
                    self.leader.session_failed(&error, began).await;
                }
            }
        }
    }

    /// One session with Redis.
    async fn serve(&mut self, mut session: Session) -> Result<End, Error> {
        let store = RealmStore::new(session.connection.clone(), &self.context.config.realm);
        if !self.leader.may_act().await {
            return Ok(End::Over);
        }
        if let Some(end) = self.begin(&store).await? {
            return Ok(end);
        }
        self.context.health.ready(PART);
        let mut looked = Instant::now();
        loop {
            if !self.leader.may_act().await {
                return Ok(End::Over);
            }
            let paced = match self.tick(&store, &mut session).await {
                Err(error) if error.code() == Some("STALE") => return Ok(End::Refused(error)),
                result => result?,
            };
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                session.look().await?;
                self.measure(&store).await?;
            }
            let tick = if paced { PACED.min(self.config.tick) } else { self.config.tick };
            // Spread, lest many realms' schedulers tick in the same instant.
            let tick = tick.mul_f64(random::within(0.8..1.2));
            let mut shutdown = self.context.shutdown.clone();
            tokio::select! {
                () = sleep(tick) => {}
                () = self.nodes.changed() => {}
                () = self.leader.lead.lost() => return Ok(End::Over),
                () = shutdown.requested() => return Ok(End::Over),
            }
        }
    }

    /// Claims the realm, and has every unit report. All leases begin anew: what was not heard while the server was
    /// away was not said to anybody. A new term also says who is alive.
    async fn begin(&mut self, store: &RealmStore) -> Result<Option<End>, Error> {
        let term = self.leader.lead.term().0;
        if let Some(refusal) = self.claim(store).await? {
            return Ok(Some(End::Refused(refusal)));
        }
        self.judge.forget();
        // All leases begin anew, so that for a while even the dead look alive.
        self.brake.unwell(self.claimed);
        if self.begun {
            info!(term, "the realm is claimed again, on a new connection");
        } else {
            self.context.health.not_ready(PART, "the units in ZooKeeper are not known yet");
            let (lead, mut shutdown) = (self.leader.lead.clone(), self.context.shutdown.clone());
            let live = tokio::select! {
                biased;
                live = self.nodes.current(&self.context.coordinator) => live,
                () = lead.lost() => return Ok(Some(End::Over)),
                () = shutdown.requested() => return Ok(Some(End::Over)),
                () = self.leader.gives_up("the units in ZooKeeper cannot be read") => return Ok(Some(End::Over)),
            };
            let Ok(live) = live else { return Ok(Some(End::Over)) };
            let live: Vec<String> = live.into_iter().collect();
            // Whose node and lease are gone is lost at once, past verdicts and brake. So nobody's lease must have run out
            // for no other reason than that we waited, and may have been suspended meanwhile.
            if self.claimed.elapsed() > FRESH {
                if !self.leader.may_act().await {
                    return Ok(Some(End::Over));
                }
                if let Some(refusal) = self.claim(store).await? {
                    return Ok(Some(End::Refused(refusal)));
                }
            }
            store.restart(&live, term).await?;
            store.ask::<u64>(&redis::Cmd::del(store.stream("brake"))).await?;
            self.begun = true;
            info!(term, live = live.len(), "the realm is claimed");
        }
        store.ask_units(None, "LIST").await?;
        Ok(None)
    }

    /// Looks, judges and acts; whether conferences wait for nothing but their units' pace.
    async fn tick(&mut self, store: &RealmStore, session: &mut Session) -> Result<bool, Error> {
        let units = store.units().await?;
        let (present, followed_since) = self.nodes.look(&self.context.coordinator);
        let now = Instant::now();
        // Nor was ZooKeeper well if it was away between two looks.
        if followed_since.is_none_or(|since| since > self.looked) {
            self.brake.unwell(now);
        }
        self.looked = now;
        self.reckon(&units);
        let look = self.judge.look(&Evidence { now, units: &units, present: &present, followed_since });
        self.lift(store, &look, now).await?;
        match self.brake.judge(&look, now) {
            Word::Hold { begun } => {
                if begun {
                    self.hold(store, &look).await?;
                }
                metrics::gauge!("allot_scheduler_brake").set(1.0);
                Ok(false)
            }
            Word::Go(down) => {
                metrics::gauge!("allot_scheduler_brake").set(0.0);
                for cmu in &down {
                    // Not by what was seen long ago; the next look comes at once.
                    if now.elapsed() > self.config.tick * 4 {
                        break;
                    }
                    self.declare(store, cmu, present.contains(cmu)).await?;
                }
                self.recover(store, session, &units, &down).await
            }
        }
    }

    /// Reckons with the leases that units have, whatever ours would be.
    fn reckon(&mut self, units: &[UnitRow]) {
        let leases = || units.iter().filter(|unit| unit.state != "down").map(|unit| unit.lease);
        let longest = leases().max().unwrap_or(self.context.config.cmu.lease).min(LONGEST);
        self.brake.leases(longest, self.claimed);
        self.leader.lasts(leases().filter(|lease| *lease <= LONGEST).max().unwrap_or_default());
    }

    async fn declare(&self, store: &RealmStore, cmu: &str, node: bool) -> Result<(), Error> {
        if self.leader.lead.check().is_err() {
            return Ok(());
        }
        match store.down(cmu, Some(self.leader.lead.term().0)).await {
            Ok(()) => {
                warn!(cmu, node, "unit is down: its lease is over");
                metrics::counter!("allot_scheduler_downs_total").increment(1);
                Ok(())
            }
            // Forgotten or replaced since we looked.
            Err(error) if error.code() == Some("NOTFOUND") => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Has conferences placed, as many as the units' pace allows; whether more wait for that alone.
    async fn recover(
        &mut self,
        store: &RealmStore,
        session: &mut Session,
        units: &[UnitRow],
        down: &[String],
    ) -> Result<bool, Error> {
        let takes = units.iter().filter(|unit| unit.state == "up" && !down.contains(&unit.cmu));
        let takes: Vec<&str> = takes.map(|unit| unit.cmu.as_str()).collect();
        // Where nobody is there nothing can be placed; but asking for it tells us whether the realm is still ours.
        let mut asked_in_vain = u32::from(takes.is_empty());
        self.pace.fill(takes.into_iter(), Instant::now());
        let mut placed = 0;
        while self.leader.lead.check().is_ok() {
            let room = self.pace.room().min(1000).max(std::mem::take(&mut asked_in_vain));
            if room == 0 {
                break;
            }
            let grants = store.recover(room, self.leader.lead.term().0).await?;
            for grant in &grants {
                debug!(e164 = grant.e164, cmu = grant.cmu, epoch = grant.epoch, "placed");
            }
            self.pace.take(&grants);
            placed += grants.len();
            self.paced = grants.len() == room as usize;
            if !self.paced {
                break;
            }
        }
        if placed > 0 {
            metrics::counter!("allot_scheduler_grants_total").increment(placed as u64);
            info!(placed, more = self.paced, "conferences are placed anew");
            self.confirm(session).await?;
        }
        Ok(self.paced)
    }

    /// Has replicas confirm what changed owner. What they do not confirm stands all the same; after a failover it would
    /// be placed once more, at another epoch.
    async fn confirm(&mut self, session: &mut Session) -> Result<(), Error> {
        match session.wait(self.config.wait_replicas, self.config.wait).await {
            Ok(true) => return Ok(()),
            Ok(false) => {
                warn!(replicas = session.replicas, "no replica confirmed the last changes of owner in time");
            }
            Err(error) if error.ends_session() => return Err(error),
            // Its rules do not let it ask. That is no reason to begin anew, and will not change soon.
            Err(error) if !self.unasked => {
                warn!(%error, "replicas cannot be asked to confirm changes of owner");
                self.unasked = true;
            }
            Err(_) => {}
        }
        metrics::counter!("allot_scheduler_unconfirmed_total").increment(1);
        Ok(())
    }

    /// The brake begins to hold: says so, to people and in the realm's `brake`.
    async fn hold(&mut self, store: &RealmStore, look: &Look) -> Result<(), Error> {
        error!(
            silent = look.silent.len(),
            alive = look.alive,
            units = names(look),
            "the brake holds: too many units would go down at once. Nothing is declared down or recovered until both \
             stores were well for {:?}, the units are back, or `allotd units release-brake` says so",
            self.config.brake_lift
        );
        self.show(store, look, now_ms()).await
    }

    /// Writes the realm's `brake`.
    async fn show(&mut self, store: &RealmStore, look: &Look, since: u64) -> Result<(), Error> {
        self.held = Some((since, Instant::now()));
        if self.leader.lead.check().is_err() {
            return Ok(());
        }
        let key = store.stream("brake");
        let mut show = redis::cmd("HSET");
        show.arg(&key)
            .arg("since")
            .arg(since)
            .arg("leader")
            .arg(&self.context.name)
            .arg("units")
            .arg(names(look));
        let mut keep = redis::cmd("EXPIRE");
        keep.arg(&key).arg(BRAKE_TTL_S);
        for shown in store.ask_all(&[show, keep]).await? {
            // It holds all the same.
            if let Err(error) = shown {
                debug!(%error, "the brake cannot be shown");
            }
        }
        Ok(())
    }

    async fn lift(&mut self, store: &RealmStore, look: &Look, now: Instant) -> Result<(), Error> {
        if !self.brake.holds() {
            return Ok(());
        }
        let key = store.stream("brake");
        let word: Option<u64> = store.ask(redis::cmd("HGET").arg(&key).arg(LIFT)).await?;
        // An answer to this brake, and not to one before.
        let lifted = self.held.is_some_and(|(since, _)| word == Some(since));
        let Some(why) = self.brake.lift(look, lifted, now) else {
            return match self.held {
                Some((since, shown)) if shown.elapsed() >= LOOK => self.show(store, look, since).await,
                _ => Ok(()),
            };
        };
        self.held = None;
        if self.leader.lead.check().is_ok() {
            store.ask::<u64>(&redis::Cmd::del(key)).await?;
        }
        match why {
            Lifted::Returned => info!(silent = look.silent.len(), "the brake is lifted: the units are back"),
            Lifted::Health => warn!(silent = look.silent.len(), "the brake is lifted: both stores are well"),
            Lifted::Operator => warn!(silent = look.silent.len(), "the brake is lifted by the operator"),
        }
        Ok(())
    }

    /// Claims the realm; the refusal, where another has claimed it later. A realm that is not
    /// there is made, with its defaults; only that needs memory, of which a server may be short.
    async fn claim(&mut self, store: &RealmStore) -> Result<Option<Error>, Error> {
        let (term, name) = (self.leader.lead.term().0, &self.context.name);
        let claimed = match store.claim(term, name).await {
            Err(error) if error.code() == Some("NOKEY") => {
                store.realm().await?;
                store.claim(term, name).await
            }
            claimed => claimed,
        };
        self.claimed = Instant::now();
        match claimed {
            Err(error) if error.code() == Some("STALE") => Ok(Some(error)),
            claimed => claimed.map(|()| None),
        }
    }

    async fn measure(&self, store: &RealmStore) -> Result<(), Error> {
        let stat = store.stat().await?;
        for state in ["waiting", "creating", "open", "pending"] {
            if let Ok(count) = stat.get::<f64>(state) {
                metrics::gauge!("allot_scheduler_conferences", "state" => state).set(count);
            }
        }
        for state in ["up", "draining", "suspect", "unreachable", "down"] {
            if let Ok(count) = stat.get::<f64>(state) {
                metrics::gauge!("allot_scheduler_units", "state" => state).set(count);
            }
        }
        Ok(())
    }
}

/// Who is silent, for people.
fn names(look: &Look) -> String {
    look.silent.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}
