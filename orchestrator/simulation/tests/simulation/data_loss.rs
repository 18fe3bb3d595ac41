//! Redis comes back older or empty: nothing that runs is stopped, and nothing that was ended starts.

use std::time::Duration;

use super::world::{Size, World};
use super::{REALM, run_paused};
use allotd::roles::media_unit::simulated;

const SIZE: Size = Size { units: 6, schedulers: 2, proxies: 2, account_leaders: 0, instances: 0, workers: 0 };
const CONFERENCES: usize = 40;
/// How long a system may take to be whole again.
const HEALED: Duration = Duration::from_secs(60);

/// What happens to the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// An operator deletes all keys.
    Flush,
    /// The server starts with an older file.
    Restore,
}

/// The conferences whose programs run, their units, and how many programs were started so far.
fn programs() -> (Vec<(String, String)>, u64) {
    let mut running = simulated::running();
    running.sort_unstable();
    (running, simulated::started())
}

impl World {
    /// Conferences are created, moved, and ended by people and by their manager.
    async fn goes_on(&mut self) {
        self.create(CONFERENCES / 2);
        self.pass(Duration::from_secs(8)).await;
        let live: Vec<Vec<u8>> = self.observer.epochs().into_keys().collect();
        for (at, e164) in live.iter().enumerate() {
            match at % 5 {
                0 => self.release(e164),
                1 => self.hang_up(e164),
                2 => {
                    let e164 = String::from_utf8_lossy(e164).into_owned();
                    let _ = self.servers.redis.run(&["CONF.MOVE", REALM, &e164]);
                }
                _ => {}
            }
        }
        self.pass(Duration::from_secs(20)).await;
        assert!(self.heals_within(HEALED).await, "{}", self.report());
    }
}

async fn lose(seed: u64, loss: Loss) {
    let mut world = World::start_open(SIZE, CONFERENCES).await;
    let saved = world.servers.redis.save();
    world.goes_on().await;
    let before = programs();
    assert!(before.0.len() > CONFERENCES / 2 && before.0.len() < CONFERENCES, "{before:?}");
    world.note(&format!("the data are lost: {loss:?}"));
    world.servers.redis.lose_data((loss == Loss::Restore).then_some(saved));
    world.pass(Duration::from_secs(30)).await;
    assert_eq!(programs(), before, "seed {seed}, {loss:?}\n{}", world.report());
    assert!(world.heals_within(HEALED).await, "seed {seed}, {loss:?}\n{}", world.report());
    assert_eq!((programs(), world.open()), (before.clone(), before.0.len()), "seed {seed}, {loss:?}");
    // What the units do not know is not forgotten: the realm goes on as before.
    world.goes_on().await;
}

#[test]
fn nothing_stops_and_nothing_starts_when_redis_is_empty() {
    for seed in 0..10 {
        run_paused(seed, lose(seed, Loss::Flush));
    }
}

#[test]
fn nothing_stops_and_nothing_starts_when_redis_is_older() {
    for seed in 0..10 {
        run_paused(seed, lose(seed, Loss::Restore));
    }
}

/// An operator drops a realm on purpose. A unit that is cut off meanwhile ends its copies as well.
#[test]
fn copies_of_a_dropped_realm_end() {
    for seed in 0..5 {
        run_paused(seed, async {
            let mut world = World::start_open(SIZE, CONFERENCES).await;
            let live: Vec<Vec<u8>> = world.observer.epochs().into_keys().collect();
            live.iter().for_each(|e164| world.observer.may_end(e164));
            let unit = world.process("unit-1");
            world.processes[unit].link.stall(true);
            world.servers.redis.lose_data(None);
            world.servers.redis.run(&["CONF.REALM", REALM]).unwrap();
            world.servers.redis.run(&["CONF.REALM", REALM, "DROP"]).unwrap();
            world.pass(Duration::from_secs(3)).await;
            world.processes[unit].link.stall(false);
            world.pass(Duration::from_secs(30)).await;
            assert_eq!(programs().0, [], "seed {seed}\n{}", world.report());
            assert!(world.heals_within(HEALED).await, "{}", world.report());
        });
    }
}
