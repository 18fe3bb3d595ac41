//! One incarnation of a unit. Sessions with Redis come and go; what it has stays, and at the beginning of each session
//! it joins, reports its list and tells every detail anew. When Redis was not heard for `self_stop`, it ends.

mod ends;
mod orders;
#[cfg(test)]
mod tests;

use std::future::ready;
use std::time::{Duration, Instant};

use redis::cmd;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, info, warn};

use super::PART;
use super::copies::Copies;
use super::details::{Details, Told};
use super::media::{Media, News, Program};
use crate::config::CmuConfig;
use crate::daemon::RoleContext as Context;
use crate::roles::data_proxy::SET;
use allot_client::streams::{self, Commands};
use allot_client::{Error, RealmStore, Session};
use allot_coordination::Membership;
use allot_coordination::node_name;
use allot_runtime::time::now_ms;
pub(super) use ends::Ends;
use orders::Done;

/// How long it rests after what no reconnect will mend.
const REST: Duration = Duration::from_millis(500);
/// How much word of programs is taken at once.
const NEWS: usize = 1024;
/// How often a drain is looked at.
const DRAIN: Duration = Duration::from_millis(200);
/// How long a report waits for programs that end.
const ENDINGS: Duration = Duration::from_secs(2);

/// The field of demonstrations.
const CHATTER: &str = "chatter";

/// Why a unit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The process shall end.
    Asked,
    /// Another incarnation took its place.
    Replaced,
    /// Redis was not heard for too long.
    CutOff,
}

/// What the realm has still to be told of all that the unit has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    /// Its list.
    List,
    /// Its list, and then all details: it has joined.
    All,
}

/// An incarnation.
pub(super) struct Unit<'a> {
    context: &'a Context,
    config: &'a CmuConfig,
    cmu: String,
    copies: Copies,
    details: Details,
    media: Media,
    news: mpsc::Receiver<News>,
    /// When the last beat was sent that was answered.
    heard: Instant,
    /// Since when conferences are moved away, lest they end with the process.
    draining: Option<Instant>,
    chatted: u64,
    /// Whether some details were refused: all are told anew with the next beat.
    untold: bool,
    /// What people ended and the realm may not know, also of the incarnations before.
    ends: Ends,
    /// Programs that begin or end, whose outcome is then said.
    works: JoinSet<Done>,
    /// How many of them begin.
    beginning: usize,
    /// What is said when nothing of that is under way, and since when: a report says what has begun and what has ended.
    owed: Option<(Owed, Instant)>,
    /// Whether replicas confirmed nothing when that was waited for last.
    doubting: bool,
}

impl<'a> Unit<'a> {
    /// One that says first what was left to say by those before it.
    pub(super) fn new(context: &'a Context, cmu: String, ends: Ends) -> Self {
        let config = &context.config.cmu;
        let (sender, news) = mpsc::channel(1024);
        let program = Program { words: config.program.clone(), stop_limit: config.stop_limit };
        Self {
            context,
            config,
            cmu,
            copies: Copies::default(),
            details: Details::default(),
            media: Media::new(program, sender),
            news,
            heard: Instant::now(),
            draining: None,
            chatted: 0,
            untold: false,
            ends,
            works: JoinSet::new(),
            beginning: 0,
            owed: None,
            doubting: false,
        }
    }

    /// From the first join to the end; what people ended and the realm may not know.
    pub(super) async fn run(mut self) -> (End, Ends) {
        let data = serde_json::json!({ "cmu": self.cmu, "capacity": self.config.capacity }).to_string();
        let dir = self.context.units_dir();
        let membership = self.context.coordinator.join(&dir, &node_name(&self.cmu), data.as_bytes());
        let end = self.live().await;
        info!(cmu = self.cmu, ?end, conferences = self.copies.len(), "unit ends");
        while let Ok(news) = self.news.try_recv() {
            self.hear(news);
        }
        // Nobody hears any more what a program has to say.
        self.news.close();
        self.media.stop_all().await;
        if end != End::CutOff {
            self.say_goodbye(end).await;
        }
        leave(membership).await;
        (end, self.ends)
    }

    async fn live(&mut self) -> End {
        loop {
            let session = match self.away().await {
                Ok(session) => session,
                Err(end) => return end,
            };
            let began = Instant::now();
            match self.serve(session).await {
                Ok(end) => return end,
                Err(error) if error.code() == Some("STALE") => return End::Replaced,
                Err(_) if self.is_cut_off() => return End::CutOff,
                Err(error) => {
                    self.context.session_failed(PART, &error, began).await;
                    // The pause before is cut short when the process shall end; who drains stays for a while.
                    if self.draining.is_some() {
                        sleep(REST).await;
                    }
                    if !error.ends_session() && error.code() != Some("NOTFOUND") {
                        sleep(REST).await;
                    }
                }
            }
        }
    }

    /// How long until media must be ended.
    fn deadline(&self) -> Option<Duration> {
        self.config.self_stop.map(|limit| limit.saturating_sub(self.heard.elapsed()))
    }

    /// Whether its media must be ended. Where there is none, nothing runs that could be too much.
    fn is_cut_off(&self) -> bool {
        self.deadline() == Some(Duration::ZERO) && self.copies.len() > 0
    }

    /// Refuses to claim anything where media must be ended: who was stopped for long may find that out in the middle of
    /// anything, and would be given back what is open elsewhere, only to drop it.
    fn may_claim(&self) -> Result<(), Error> {
        if self.is_cut_off() {
            return Err(Error::Stopped("Redis was not heard for too long".to_owned()));
        }
        Ok(())
    }

    /// Redis has answered what was sent then. Where media shall not run twice, the watchdog hears until when it
    /// certainly runs nowhere else: who is stopped cannot end it by itself.
    fn heard(&mut self, sent: Instant) {
        // A unit that was itself stopped finds that out by whatever it does first.
        if self.is_cut_off() {
            return;
        }
        self.heard = sent;
        if self.config.self_stop.is_some() {
            let safe = self.config.lease.saturating_sub(self.context.config.servers.timeout);
            self.media.may_run(safe.saturating_sub(sent.elapsed()));
        }
    }

    /// The process shall end: now, or when its conferences are moved away.
    fn leave(&mut self) -> Option<End> {
        if !self.config.drain {
            return Some(End::Asked);
        }
        info!(cmu = self.cmu, conferences = self.copies.len(), "draining");
        self.draining = Some(Instant::now());
        None
    }

    /// Whether moving conferences away takes too long.
    fn is_late(&self) -> bool {
        self.draining.is_some_and(|since| since.elapsed() >= self.config.drain_limit)
    }

    /// Without a session: media goes on, but not for ever.
    async fn away(&mut self) -> Result<Session, End> {
        let context = self.context;
        let connecting = context.reconnect(PART);
        tokio::pin!(connecting);
        let mut shutdown = context.shutdown.clone();
        loop {
            if self.is_cut_off() {
                return Err(End::CutOff);
            }
            // What people ended must be said, or it would begin anew elsewhere.
            let is_done = self.copies.len() == 0 && self.ends.are_said();
            if self.is_late() || self.draining.is_some() && is_done {
                return Err(End::Asked);
            }
            let rest = self.deadline().filter(|_| self.copies.len() > 0).unwrap_or(REST).min(REST);
            tokio::select! {
                session = &mut connecting => return Ok(session),
                Some(news) = self.news.recv() => self.hear(news),
                () = shutdown.requested(), if self.draining.is_none() => if let Some(end) = self.leave() {
                    return Err(end);
                },
                () = sleep(rest) => {}
            }
        }
    }

    /// One session; ends well only with the unit.
    async fn serve(&mut self, mut session: Session) -> Result<End, Error> {
        let store = RealmStore::new(session.connection.clone(), &self.context.config.realm);
        // Before all else: an identity that ours takes the place of is heard no more.
        self.ends.say_again();
        self.say_ends(&store).await?;
        let sent = Instant::now();
        self.join(&store).await?;
        self.heard(sent);
        self.owed = Some((Owed::All, Instant::now()));
        let stream = store.stream(&format!("cmd:{}", self.cmu));
        let mut commands = Commands::read(session.another(streams::BLOCK).await?, stream);
        let mut beat = ticks(self.config.beat);
        let mut chatter = ticks(self.config.chatter.unwrap_or(Duration::from_secs(3600)));
        let mut shutdown = self.context.shutdown.clone();
        let mut drain = ticks(DRAIN);
        loop {
            if self.is_cut_off() {
                return Ok(End::CutOff);
            }
            if let Some(owed) = self.payable() {
                self.pay(owed, &store, &mut session).await?;
            }
            tokio::select! {
                biased;
                _ = beat.tick() => {
                    session.is_named()?;
                    self.beat(&store, &mut session).await?;
                }
                Some(Ok(done)) = self.works.join_next() => self.finish(&store, done).await?,
                entries = commands.next(), if self.owed.is_none() => self.obey(&store, &mut session, entries?).await?,
                Some(news) = self.news.recv() => {
                    self.hear(news);
                    // Not without end: who talks all the time must not keep us from our beats.
                    for _ in 0..NEWS {
                        let Ok(news) = self.news.try_recv() else { break };
                        self.hear(news);
                    }
                    self.say_ends(&store).await?;
                    self.tell(&store).await?;
                }
                _ = chatter.tick(), if self.config.chatter.is_some() => {
                    self.chat();
                    self.tell(&store).await?;
                }
                () = shutdown.requested(), if self.draining.is_none() => if let Some(end) = self.leave() {
                    return Ok(end);
                },
                _ = drain.tick(), if self.draining.is_some() => {
                    let left = store.drain(&self.cmu).await?;
                    if left == 0 && self.copies.len() == 0 || self.is_late() {
                        return Ok(End::Asked);
                    }
                }
                // The rest of what is too much to be told at once, when there is nothing else to do.
                () = ready(()), if self.details.has_news() => self.tell(&store).await?,
            }
        }
    }

    async fn join(&self, store: &RealmStore) -> Result<(), Error> {
        self.may_claim()?;
        let lease = self.config.lease.as_millis() as u64;
        let zone = self.config.zone.as_deref();
        match store.join(&self.cmu, self.config.capacity, zone, lease).await {
            // No realm yet: its defaults will do until an operator says otherwise.
            Err(error) if error.code() == Some("NOKEY") => {
                store.realm().await?;
                store.join(&self.cmu, self.config.capacity, zone, lease).await
            }
            result => result,
        }
    }

    async fn beat(&mut self, store: &RealmStore, session: &mut Session) -> Result<(), Error> {
        let sent = Instant::now();
        match store.beat(&self.cmu, self.copies.len()).await {
            // Down, or unknown to a server that took over: it joins and reports.
            Err(error) if matches!(error.code(), Some("NOTFOUND" | "NOKEY")) => {
                warn!(cmu = self.cmu, "the unit was taken for dead, or is unknown; joining again");
                self.join(store).await?;
                self.heard(sent);
                self.owed = Some((Owed::All, Instant::now()));
                return Ok(());
            }
            result => result?,
        }
        self.heard(sent);
        if self.ends.are_doubtful() {
            self.ask_replicas(session).await?;
        }
        if std::mem::take(&mut self.untold) {
            self.details.renew_all();
            self.tell(store).await?;
        }
        metrics::gauge!("allot_unit_conferences").set(self.copies.len() as f64);
        Ok(())
    }

    /// What is owed and can be said: as soon as all has begun that begins, and nothing ends any more or has done so for
    /// long. A program that takes long to end would keep all others waiting.
    fn payable(&self) -> Option<Owed> {
        let (owed, since) = self.owed?;
        (self.beginning == 0 && (self.works.is_empty() || since.elapsed() >= ENDINGS)).then_some(owed)
    }

    /// Says what it has, and all about it where that is owed.
    async fn pay(&mut self, owed: Owed, store: &RealmStore, session: &mut Session) -> Result<(), Error> {
        self.report(store, session).await?;
        self.owed = None;
        if owed == Owed::All {
            self.details.renew_all();
            self.tell(store).await?;
            self.context.health.ready(PART);
            info!(cmu = self.cmu, server = %session.node, conferences = self.copies.len(), "joined");
        }
        Ok(())
    }

    /// Says what it has. What follows comes as commands, in their turn.
    async fn report(&mut self, store: &RealmStore, session: &mut Session) -> Result<(), Error> {
        self.may_claim()?;
        let reported = store.report(&self.cmu, self.copies.highest(), &self.copies.list()).await?;
        metrics::counter!("allot_unit_reports_total").increment(1);
        debug!(cmu = self.cmu, ?reported, "reported");
        // Conferences are its own again; after a failover that forgets it, it would report them once more.
        if reported.adopted > 0 && !self.ask_replicas(session).await? {
            warn!(cmu = self.cmu, "no replica confirmed in time that conferences are ours again");
        }
        Ok(())
    }

    /// Word from a program.
    fn hear(&mut self, news: News) {
        match news {
            News::Detail { e164, start, field, value } if self.media.is_current(&e164, start) => {
                self.details.set(&e164, &field, value);
            }
            News::Ended { e164, start } if self.media.is_current(&e164, start) && self.heeds_ends() => {
                self.media.stop(&e164);
                self.details.forget(&e164);
                let Some(epoch) = self.copies.forget(&e164) else { return };
                info!(e164, epoch, "ended by people");
                let mut word = cmd("CONF.ENDED");
                word.arg(&self.context.config.realm).arg(&e164).arg(&self.cmu).arg(epoch);
                self.ends.push(word);
            }
            News::Detail { .. } | News::Ended { .. } => {}
        }
    }

    /// Whether people ended what has ended. A service manager that ends us may have asked our programs to end as well;
    /// of who drains it must not ask that, and people go on ending conferences meanwhile.
    fn heeds_ends(&self) -> bool {
        self.config.drain || !self.context.shutdown.is_requested()
    }

    fn chat(&mut self) {
        self.chatted += 1;
        for (e164, _) in self.copies.list() {
            self.details.set(&e164, CHATTER, format!("{} {}", self.chatted, now_ms()));
        }
    }

    /// Tells what is new, or a part of it.
    async fn tell(&mut self, store: &RealmStore) -> Result<(), Error> {
        let stream = store.stream("info");
        let mut messages = Vec::new();
        for Told { e164, seq, fields } in self.details.take() {
            let Some(epoch) = self.copies.epoch(&e164) else { continue };
            let mut message = cmd("XADD");
            message.arg(&stream).arg("*").arg("event").arg(SET).arg("e164").arg(&e164);
            message.arg("cmu").arg(&self.cmu).arg("epoch").arg(epoch).arg("seq").arg(seq);
            for (field, value) in fields {
                // Names its assignment, so that whoever looks can tell whose write was accepted.
                let value = if field == CHATTER { format!("{} {epoch} {value}", self.cmu) } else { value };
                message.arg(field).arg(value);
            }
            messages.push(message);
        }
        let mut lost = false;
        for result in store.ask_all(&messages).await? {
            match result {
                // Whoever has no memory for details may have commands for us all the same.
                Err(error) if error.ends_session() && error.code() != Some("OOM") => return Err(error),
                Err(error) => {
                    lost = true;
                    debug!(%error, "details cannot be told now");
                }
                Ok(_) => {}
            }
        }
        if lost {
            metrics::counter!("allot_unit_untold_total").increment(1);
            self.untold = true;
        }
        Ok(())
    }
}

/// Takes our node away, if the coordination service can be asked.
async fn leave(membership: Membership) {
    let _ = timeout(Duration::from_secs(2), membership.leave()).await;
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
