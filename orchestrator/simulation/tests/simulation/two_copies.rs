//! Units that are cut off from Redis, from ZooKeeper or from both: no conference runs on two units at a time, and no
//! program stops without need.

use std::collections::BTreeMap;
use std::time::Duration;

use allotd::roles::media_unit::simulated;
use tokio::time::Instant;

use super::run_paused;
use super::world::{Size, World};

const SIZE: Size = Size { units: 6, schedulers: 2, proxies: 2, account_leaders: 0, instances: 0, workers: 0 };
const CONFERENCES: usize = 40;
/// How long a system may take to be whole again.
const HEALED: Duration = Duration::from_secs(60);

/// The conferences whose programs run, and their units.
fn programs() -> Vec<(String, String)> {
    let mut running = simulated::running();
    running.sort_unstable();
    running
}

impl World {
    /// Lets time pass, and looks every 50 ms whether a conference has programs on two units.
    async fn pass_with_one_copy_each(&mut self, seed: u64, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.pass(Duration::from_millis(50)).await;
            let mut units = BTreeMap::new();
            for (e164, cmu) in simulated::running() {
                let other = units.insert(e164.clone(), cmu.clone());
                assert!(
                    other.is_none(),
                    "seed {seed}: {e164} runs on {other:?} and {cmu}\n{}",
                    self.report()
                );
            }
        }
    }

    async fn heals_with_one_copy_each(&mut self, seed: u64) {
        self.pass_with_one_copy_each(seed, Duration::from_secs(30)).await;
        assert!(self.heals_within(HEALED).await, "{}", self.report());
    }
}

/// What a unit is cut off from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Redis,
    ZooKeeper,
    Both,
}

/// A unit is cut off for this time; whether its programs are the same as before when it is back.
async fn cut_off(seed: u64, cut: Cut, time: Duration) -> bool {
    let mut world = World::start_open(SIZE, CONFERENCES).await;
    let (before, started) = (programs(), simulated::started());
    let unit = world.process("unit-1");
    world.note(&format!("unit-1 is cut off: {cut:?}"));
    let stall = |world: &World, stalls: bool| {
        if cut != Cut::ZooKeeper {
            world.processes[unit].link.stall(stalls);
        }
        if cut != Cut::Redis {
            world.processes[unit].line.stall(stalls);
        }
    };
    stall(&world, true);
    world.pass_with_one_copy_each(seed, time).await;
    stall(&world, false);
    world.heals_with_one_copy_each(seed).await;
    let others = |programs: &[(String, String)]| {
        programs.iter().filter(|(_, cmu)| !cmu.starts_with("unit-1:")).cloned().collect::<Vec<_>>()
    };
    let kept = programs();
    let stopped = others(&before).iter().filter(|one| !kept.contains(one)).count();
    assert_eq!(stopped, 0, "seed {seed}, {cut:?}: a program of another unit was stopped\n{}", world.report());
    kept == before && simulated::started() == started
}

#[test]
fn unit_that_is_cut_off_from_redis_ends_its_copies_before_others_begin() {
    for seed in 0..10 {
        run_paused(seed, async move {
            assert!(!cut_off(seed, Cut::Redis, Duration::from_secs(40)).await, "seed {seed}");
        });
    }
}

#[test]
fn unit_that_is_cut_off_from_both_ends_its_copies_before_others_begin() {
    for seed in 0..10 {
        run_paused(seed, async move {
            assert!(!cut_off(seed, Cut::Both, Duration::from_secs(20)).await, "seed {seed}");
        });
    }
}

#[test]
fn nothing_stops_when_a_unit_is_cut_off_from_zookeeper_or_from_redis_for_a_failover() {
    for (cut, time) in [(Cut::ZooKeeper, 20), (Cut::Redis, 10)] {
        for seed in 0..10 {
            run_paused(seed, async move {
                assert!(cut_off(seed, cut, Duration::from_secs(time)).await, "seed {seed}, {cut:?}");
            });
        }
    }
}

#[test]
fn nothing_stops_when_redis_is_away_for_ten_seconds() {
    for seed in 0..10 {
        run_paused(seed, async move {
            let mut world = World::start_open(SIZE, CONFERENCES).await;
            let before = (programs(), simulated::started());
            world.note("Redis is away");
            world.servers.redis.set_master_up(false);
            world.pass_with_one_copy_each(seed, Duration::from_secs(10)).await;
            world.servers.redis.set_master_up(true);
            world.heals_with_one_copy_each(seed).await;
            assert_eq!((programs(), simulated::started()), before, "seed {seed}\n{}", world.report());
        });
    }
}
