//! A simulated buyer: asks for seats, or for fewer if not enough are free, and then buys them, releases them, or lets
//! the hold expire. A buyer has one request in progress at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::{Instant, sleep};

use super::ledger::Ledger;
use super::tally::{Operation, Tally};
use allot_client::{Error, Hold, HoldRequest, SeatChoice, SeatStore};

/// Pause before a buyer asks again when nothing was free.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Rounding of the server's clock, which counts in milliseconds.
const TICK: Duration = Duration::from_millis(2);
/// A hold may end this much before its time to live is over, by this process's clock: the server rounds its clock down,
/// and may have read its clock before our request arrived.
const MARGIN: Duration = Duration::from_millis(20);

/// Parameters and results of a load test, which all buyers share.
#[derive(Debug)]
pub(super) struct LoadTest {
    /// Smallest and largest number of seats of a purchase.
    pub(super) group_size: (u32, u32),
    pub(super) tier: Option<String>,
    pub(super) ttl: Duration,
    /// Probability that a hold is bought. With probability `release` a hold is released; the other holds expire.
    pub(super) confirm: f64,
    pub(super) release: f64,
    pub(super) stop: StopCondition,
    pub(super) seed: u64,
    /// Part of the name of every user, so that two runs share no user.
    pub(super) run: u64,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) tally: Mutex<Tally>,
    /// Holds whose seats may become free again: granted, and not yet bought, released or expired.
    pub(super) outstanding: AtomicU64,
    pub(super) purchases: AtomicU64,
    /// Set when a buyer gets an error: then all buyers stop.
    pub(super) broken: AtomicBool,
}

impl LoadTest {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The condition at which a buyer stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopCondition {
    /// After one purchase.
    Once,
    /// When no seat is free and no hold is outstanding.
    SoldOut,
    /// At this time.
    At(Instant),
}

/// Bounds of the end of a hold. The server counts the time to live from a time between request and reply.
#[derive(Debug, Clone, Copy)]
struct Lease {
    /// Before this time the hold cannot have ended.
    sure: Instant,
    /// After this time the hold must have ended.
    over: Instant,
}

/// Buys until the stop condition holds.
pub(super) async fn run(test: &LoadTest, show: &SeatStore, number: u64) {
    let mut random = StdRng::seed_from_u64(test.seed.wrapping_add(number));
    loop {
        if test.broken.load(Ordering::Relaxed) {
            return;
        }
        if let StopCondition::At(end) = test.stop
            && Instant::now() >= end
        {
            return;
        }
        match purchase(test, show, &mut random).await {
            Ok(_) if test.stop == StopCondition::Once => return,
            Ok(true) => {}
            // A buyer with an outstanding hold asks again afterwards, so the last one sees the seats that its hold
            // frees.
            Ok(false)
                if test.stop == StopCondition::SoldOut && test.outstanding.load(Ordering::SeqCst) == 0 =>
            {
                return;
            }
            Ok(false) => sleep(RETRY_PAUSE).await,
            Err(error) => {
                test.tally().error.get_or_insert_with(|| error.to_string());
                test.broken.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// One purchase. Returns whether any seat was free.
async fn purchase(test: &LoadTest, show: &SeatStore, random: &mut StdRng) -> Result<bool, Error> {
    let holder = test.purchases.fetch_add(1, Ordering::Relaxed);
    let (smallest, largest) = test.group_size;
    let count = random.random_range(smallest..=largest);
    let Some((hold, lease)) = find(test, show, holder, count).await? else {
        test.tally().counts.nothing_free += 1;
        return Ok(false);
    };
    test.outstanding.fetch_add(1, Ordering::SeqCst);
    let doubles = test.ledger().enter(holder, &hold.seats, lease.sure, Instant::now());
    test.tally().doubles(doubles);
    let dice: f64 = random.random();
    let done = if dice < test.confirm {
        confirm(test, show, holder, &hold, lease).await
    } else if dice < test.confirm + test.release {
        release(test, show, holder, &hold, lease).await
    } else {
        // After this time the seats are free, or queued for those who wait, so no buyer concludes too early that the show is
        // sold out.
        sleep(lease.over.saturating_duration_since(Instant::now())).await;
        test.tally().counts.expired += 1;
        Ok(())
    };
    test.outstanding.fetch_sub(1, Ordering::SeqCst);
    done.map(|()| true)
}

/// Asks for `count` seats, and then for fewer and fewer until a hold is granted.
async fn find(
    test: &LoadTest,
    show: &SeatStore,
    holder: u64,
    count: u32,
) -> Result<Option<(Hold, Lease)>, Error> {
    let user = format!("rush-{:x}-{holder}", test.run);
    for count in (1..=count).rev() {
        let sent = Instant::now();
        let ttl_ms = test.ttl.as_millis() as u64;
        let tier = test.tier.as_deref();
        let choice = SeatChoice { tier, ..SeatChoice::default() };
        let reply =
            show.hold(&HoldRequest { user: &user, count, ttl_ms, choice, ..HoldRequest::default() }).await;
        test.tally().took(Operation::Hold, sent);
        if let Some(hold) = reply? {
            test.tally().granted(count, &hold);
            let over = Instant::now() + test.ttl + TICK;
            return Ok(Some((hold, Lease { sure: sent + test.ttl.saturating_sub(MARGIN), over })));
        }
    }
    Ok(None)
}

async fn confirm(
    test: &LoadTest,
    show: &SeatStore,
    holder: u64,
    hold: &Hold,
    lease: Lease,
) -> Result<(), Error> {
    let sent = Instant::now();
    let reply = show.confirm(&hold.token, None).await;
    let doubles = if reply.is_ok() { test.ledger().sell(holder, &hold.seats) } else { Vec::new() };
    let mut tally = test.tally();
    tally.took(Operation::Confirm, sent);
    tally.doubles(doubles);
    match reply {
        Ok(sold) => tally.confirmed(sold, hold.seats.len()),
        // Before `sure` the server must not have ended the hold.
        Err(error) if error.code() == Some("NOTFOUND") => tally.came_too_late(Instant::now() < lease.sure),
        Err(error) => {
            if matches!(error, Error::Link { .. }) {
                tally.counts.seats_unknown += hold.seats.len() as u64;
            }
            return Err(error);
        }
    }
    Ok(())
}

async fn release(
    test: &LoadTest,
    show: &SeatStore,
    holder: u64,
    hold: &Hold,
    lease: Lease,
) -> Result<(), Error> {
    test.ledger().leave(holder, &hold.seats);
    let sent = Instant::now();
    let reply = show.release(&hold.token).await;
    let mut tally = test.tally();
    tally.took(Operation::Release, sent);
    match reply {
        Ok(_) => tally.counts.released += 1,
        Err(error) if error.code() == Some("NOTFOUND") => tally.came_too_late(Instant::now() < lease.sure),
        Err(error) => return Err(error),
    }
    Ok(())
}
