//! One buyer: asks for seats, fewer if there are not so many, then buys them, gives them back or forgets
//! them. A buyer has one request under way at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::sleep;

use super::ledger::Ledger;
use super::tally::{Operation, Tally};
use allot_client::{Error, Hold, HoldRequest, SeatStore};

/// Pause between two looks at a show that has nothing free but may have again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The server counts in milliseconds.
const TICK: Duration = Duration::from_millis(2);
/// By how much less than its time to live a hold is surely ours: the server rounds its clock down, and may
/// have read it before our request arrived.
const MARGIN: Duration = Duration::from_millis(20);

/// What all buyers share.
#[derive(Debug)]
pub(super) struct Market {
    /// Smallest and largest party.
    pub(super) party: (u32, u32),
    pub(super) tier: Option<String>,
    pub(super) ttl: Duration,
    /// Chance that a hold is bought, and that it is given back; else it is forgotten.
    pub(super) confirm: f64,
    pub(super) release: f64,
    pub(super) ends: Ends,
    pub(super) seed: u64,
    /// Part of every user's name, so that two runs never share a user.
    pub(super) run: u64,
    pub(super) ledger: Ledger,
    pub(super) tally: Tally,
    /// Holds that may yet come back: granted, and neither bought, given back nor lapsed.
    pub(super) outstanding: AtomicU64,
    pub(super) purchases: AtomicU64,
    /// Set when a buyer lost the server: then all stop.
    pub(super) broken: AtomicBool,
}

/// When a buyer goes home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// After one purchase.
    Once,
    /// When nothing is free and nothing can come back.
    SoldOut,
    /// At this time.
    At(Instant),
}

/// What is known of a hold's end. The server counted the time to live from some moment between sending
/// and reply.
#[derive(Debug, Clone, Copy)]
struct Lease {
    /// Until then the seats are surely ours.
    sure: Instant,
    /// From then on they are surely not.
    over: Instant,
}

/// What became of asking.
enum Found {
    /// Seats, for a while.
    Seats(Hold, Lease),
    Nothing,
}

/// Buys until the end.
pub(super) async fn run(market: &Market, show: &SeatStore, number: u64) {
    let mut random = StdRng::seed_from_u64(market.seed.wrapping_add(number));
    loop {
        if market.broken.load(Ordering::Relaxed) {
            return;
        }
        if let Ends::At(end) = market.ends
            && Instant::now() >= end
        {
            return;
        }
        match purchase(market, show, &mut random).await {
            Ok(_) if market.ends == Ends::Once => return,
            Ok(true) => {}
            // A buyer with a hold outstanding asks again afterwards, so the last of them sees the seats that it frees.
            Ok(false) if market.ends == Ends::SoldOut && market.outstanding.load(Ordering::SeqCst) == 0 => {
                return;
            }
            Ok(false) => sleep(LOOK_AGAIN).await,
            Err(error) => {
                market.tally.error(&error);
                market.broken.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// One purchase; whether there was anything to be had.
async fn purchase(market: &Market, show: &SeatStore, random: &mut StdRng) -> Result<bool, Error> {
    let holder = market.purchases.fetch_add(1, Ordering::Relaxed);
    let (smallest, largest) = market.party;
    let Found::Seats(hold, lease) =
        find(market, show, holder, random.random_range(smallest..=largest)).await?
    else {
        market.tally.nothing_free();
        return Ok(false);
    };
    market.outstanding.fetch_add(1, Ordering::SeqCst);
    market.tally.doubles(market.ledger.enter(holder, &hold.seats, lease.sure, Instant::now()));
    let dice: f64 = random.random();
    let done = if dice < market.confirm {
        confirm(market, show, holder, &hold, lease).await
    } else if dice < market.confirm + market.release {
        release(market, show, holder, &hold, lease).await
    } else {
        // A request after this finds the seats free, so no buyer takes the show for sold out too early.
        sleep(lease.over.saturating_duration_since(Instant::now())).await;
        market.tally.forgotten();
        Ok(())
    };
    market.outstanding.fetch_sub(1, Ordering::SeqCst);
    done.map(|()| true)
}

/// Asks for `count` seats, and for fewer while there are not so many.
async fn find(market: &Market, show: &SeatStore, holder: u64, count: u32) -> Result<Found, Error> {
    let user = format!("rush-{:x}-{holder}", market.run);
    for count in (1..=count).rev() {
        let sent = Instant::now();
        let ttl_ms = market.ttl.as_millis() as u64;
        let tier = market.tier.as_deref();
        let reply = show.hold(&HoldRequest { user: &user, count, ttl_ms, tier, token: None }).await;
        market.tally.took(Operation::Hold, sent.elapsed());
        if let Some(hold) = reply? {
            market.tally.granted(count, &hold);
            let over = Instant::now() + market.ttl + TICK;
            return Ok(Found::Seats(hold, Lease { sure: sent + market.ttl.saturating_sub(MARGIN), over }));
        }
    }
    Ok(Found::Nothing)
}

async fn confirm(
    market: &Market,
    show: &SeatStore,
    holder: u64,
    hold: &Hold,
    lease: Lease,
) -> Result<(), Error> {
    let sent = Instant::now();
    let reply = show.confirm(&hold.token, None).await;
    market.tally.took(Operation::Confirm, sent.elapsed());
    match reply {
        Ok(sold) => {
            market.tally.confirmed(sold, hold.seats.len());
            market.tally.doubles(market.ledger.sell(holder, &hold.seats));
            Ok(())
        }
        Err(error) if error.code() == Some("NOTFOUND") => {
            // Before the lease's end the server has no right to forget it.
            market.tally.came_too_late(Instant::now() < lease.sure);
            Ok(())
        }
        Err(error) => {
            if matches!(error, Error::Link { .. }) {
                market.tally.unknown(hold.seats.len());
            }
            Err(error)
        }
    }
}

async fn release(
    market: &Market,
    show: &SeatStore,
    holder: u64,
    hold: &Hold,
    lease: Lease,
) -> Result<(), Error> {
    market.ledger.leave(holder, &hold.seats);
    let sent = Instant::now();
    let reply = show.release(&hold.token).await;
    market.tally.took(Operation::Release, sent.elapsed());
    match reply {
        Ok(_) => {
            market.tally.released();
            Ok(())
        }
        Err(error) if error.code() == Some("NOTFOUND") => {
            market.tally.came_too_late(Instant::now() < lease.sure);
            Ok(())
        }
        Err(error) => Err(error),
    }
}
