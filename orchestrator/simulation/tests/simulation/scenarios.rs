//! Scenarios: a healthy system, and faults in a given order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use allot_core::account::Book;
use allot_core::conf::Realm;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;

use super::world::{Size, World};
use super::{REALM, clock, is_soak, run_paused};

const SMALL: Size =
    Size { units: 6, schedulers: 3, proxies: 2, account_leaders: 0, instances: 0, workers: 0 };
const CONFERENCES: usize = 60;
/// How long a system may take to be whole again after a fault.
const HEALED: Duration = Duration::from_secs(60);

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// How many open conferences have details.
fn with_details(realm: &Realm) -> usize {
    let (open, _) = realm.list(None, None, 0, usize::MAX - 1);
    open.iter().filter(|conference| !conference.details.is_empty()).count()
}

impl World {
    async fn heals(&mut self) {
        assert!(self.heals_within(HEALED).await, "{}", self.report());
    }

    /// A process hangs until its ZooKeeper session and its lease have expired.
    async fn stall(&mut self, name: &str, time: Duration) {
        let process = self.process(name);
        self.processes[process].stall(true);
        self.pass(time).await;
        self.processes[process].stall(false);
    }
}

/// A large system, and its conferences.
const LARGE: Size =
    Size { units: 20, schedulers: 5, proxies: 5, account_leaders: 0, instances: 0, workers: 0 };
const MANY: usize = 500;

/// The processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// `make bench-simulation`: the processor time of a simulated hour of a large healthy system. All runs do the same work.
#[test]
#[ignore = "a measurement"]
fn simulated_hour() {
    const HOUR: u64 = 3600;
    for _ in 0..3 {
        run_paused(1, async {
            let mut world = World::start_open(LARGE, MANY).await;
            let (began, before) = (processor_time(), world.servers.redis.traffic());
            world.pass(seconds(HOUR)).await;
            let took = processor_time().saturating_sub(began);
            let commands = world.servers.redis.traffic().commands - before.commands;
            println!(
                "{HOUR} simulated seconds took {:.2} s of processor time ({commands} commands to Redis, {:.1?} each)",
                took.as_secs_f64(),
                took / commands as u32,
            );
        });
    }
}

#[test]
fn healthy_system_keeps_all_conferences_where_they_are() {
    run_paused(1, async {
        let mut world = World::start_open(LARGE, MANY).await;
        let epochs = world.observer.epochs();
        world.pass(seconds(if is_soak() { 3600 } else { 300 })).await;
        assert_eq!((world.open(), world.servers.redis.realm(with_details)), (MANY, Some(MANY)));
        assert_eq!(world.observer.epochs(), epochs, "no conference has lost its unit");
        let term = world.servers.redis.realm(|realm| realm.leader().0);
        assert_eq!(term, Some(1), "one scheduler leads all the time");
        world.heals().await;
    });
}

#[test]
fn conferences_of_a_dead_unit_are_recovered() {
    run_paused(2, async {
        let mut world = World::start_open(SMALL, CONFERENCES).await;
        let epochs = world.observer.epochs();
        world.kill(world.process("unit-3"));
        world.pass(seconds(30)).await;
        world.heals().await;
        let moved = world.observer.epochs().iter().filter(|(e164, epoch)| epochs[*e164] < **epoch).count();
        assert!((1..CONFERENCES).contains(&moved) && world.open() == CONFERENCES, "{moved} moved");
    });
}

/// The units that were assigned a conference at each millisecond since a time.
fn assigned_since(realm: &Realm, since: i64) -> BTreeMap<i64, BTreeSet<Vec<u8>>> {
    let mut assigned: BTreeMap<i64, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for conference in realm.list(None, None, 0, usize::MAX - 1).0 {
        for assignment in conference.history.iter().filter(|assignment| assignment.from > since) {
            assigned.entry(assignment.from).or_default().insert(assignment.cmu.to_vec());
        }
    }
    assigned
}

#[test]
fn units_start_recovered_conferences_at_different_moments() {
    const UNITS: usize = 11;
    for seed in 20..25 {
        run_paused(seed, async {
            let mut world = World::start_open(Size { units: UNITS, ..SMALL }, 50 * UNITS).await;
            let created = world.servers.redis.realm(|realm| assigned_since(realm, 0)).unwrap();
            let (&since, _) = created.last_key_value().unwrap();
            for unit in ["unit-3", "unit-7"] {
                world.kill(world.process(unit));
            }
            world.pass(seconds(30)).await;
            world.heals().await;
            let assigned = world.servers.redis.realm(|realm| assigned_since(realm, since)).unwrap();
            let together: Vec<usize> = assigned.values().map(BTreeSet::len).collect();
            assert!(together.len() >= 20, "units at each moment: {together:?}");
            assert!(together.iter().all(|&units| units < UNITS / 2), "units at each moment: {together:?}");
        });
    }
}

#[test]
fn another_scheduler_leads_when_the_leader_dies() {
    run_paused(3, async {
        let mut world = World::start_open(SMALL, CONFERENCES).await;
        let leader =
            world.servers.redis.realm(|realm| realm.leader().1.map(<[u8]>::to_vec)).flatten().unwrap();
        world.kill(world.process(std::str::from_utf8(&leader).unwrap()));
        world.pass(seconds(10)).await;
        let term = world.servers.redis.realm(|realm| realm.leader().0);
        assert_eq!(term, Some(2));
        world.kill(world.process("unit-0"));
        world.pass(seconds(30)).await;
        world.heals().await;
        assert_eq!(world.open(), CONFERENCES);
    });
}

#[test]
fn failover_to_a_replica_with_another_clock_loses_no_conference() {
    for ahead in [-2000, 0, 2000] {
        run_paused(4, async {
            let mut world = World::start_open(SMALL, CONFERENCES).await;
            clock::set_server_ahead_ms(ahead);
            world.servers.redis.fail_over();
            world.pass(seconds(30)).await;
            world.heals().await;
            assert_eq!(world.open(), CONFERENCES, "{ahead}");
        });
    }
}

#[test]
fn restarted_master_finds_all_conferences_on_their_units() {
    run_paused(5, async {
        let mut world = World::start_open(SMALL, CONFERENCES).await;
        world.servers.redis.set_master_up(false);
        world.pass(seconds(20)).await;
        world.servers.redis.set_master_up(true);
        world.pass(seconds(30)).await;
        world.heals().await;
        assert_eq!(world.open(), CONFERENCES);
    });
}

/// The unit finds messages of conferences that were recovered meanwhile, and hangs again before it has handled all.
#[test]
fn unit_that_hangs_with_unread_messages_ends_no_conference() {
    run_paused(6, async {
        let mut world = World::start_open(SMALL, CONFERENCES).await;
        for pause_ms in [30, 200, 1000] {
            world.processes[world.process("unit-2")].stall(true);
            world.create(CONFERENCES);
            world.stall("unit-2", seconds(8)).await;
            world.pass(Duration::from_millis(pause_ms)).await;
            world.stall("unit-2", seconds(10)).await;
        }
        world.pass(seconds(20)).await;
        world.heals().await;
        assert_eq!(world.open(), 4 * CONFERENCES);
    });
}

/// The replica still has the conferences on a unit that has ended its copies of them.
#[test]
fn failover_to_a_replica_behind_by_more_than_a_lease_ends_no_conference() {
    run_paused(7, async {
        let mut world = World::start_open(SMALL, CONFERENCES).await;
        world.servers.redis.connect_replica(false);
        world.stall("unit-2", seconds(10)).await;
        world.pass(seconds(12)).await;
        world.servers.redis.fail_over();
        world.pass(seconds(20)).await;
        world.heals().await;
        assert_eq!(world.open(), CONFERENCES);
    });
}

/// Another run on the host joins after the scheduler has observed that the unit is silent, and before `CMU.DOWN`.
#[test]
fn scheduler_goes_on_when_a_silent_unit_was_replaced() {
    run_paused(10, async {
        let mut world = World::start_open(SMALL, CONFERENCES).await;
        let redis = world.servers.redis.clone();
        redis.run_before("CMU.DOWN", &["CMU.JOIN", REALM, "unit-3:0:0", "CAPACITY", "0"]);
        redis.run_before("CONF.TERM", &["CONF.STAT", REALM]);
        world.kill(world.process("unit-3"));
        world.pass(seconds(20)).await;
        assert!(!redis.awaits("CMU.DOWN"), "the unit was not declared down");
        assert!(redis.awaits("CONF.TERM"), "the leader claims the realm again");
        assert_eq!(world.open(), CONFERENCES);
    });
}

/// A system that only assigns accounts.
const ACCOUNTS: Size =
    Size { units: 0, schedulers: 0, proxies: 0, account_leaders: 2, instances: 2, workers: 0 };

#[test]
fn accounts_are_used_by_their_instances_and_what_these_send_is_counted() {
    run_paused(8, async {
        let mut world = World::start(ACCOUNTS);
        world.pass(seconds(30)).await;
        world.heals().await;
        let used = |world: &World| {
            let used =
                |book: &Book| book.usage_by_department(book.month()).into_values().map(|usage| usage.used);
            world.servers.redis.book(|book| used(book).sum::<u128>()).unwrap()
        };
        let before = used(&world);
        world.pass(seconds(30)).await;
        assert!(before > 0 && used(&world) > before, "{before}");
        world.heals().await;
    });
}

#[test]
fn accounts_move_safely_while_instances_hang_and_servers_fail_over() {
    run_paused(9, async {
        let mut world = World::start(ACCOUNTS);
        world.pass(seconds(20)).await;
        world.stall("billing-0", seconds(10)).await;
        for account in 0..4 {
            world.move_account(account, 0);
        }
        world.stall("audit-1", seconds(3)).await;
        world.servers.redis.fail_over();
        world.heals().await;
        let killed = world.kill(world.process("accounts-0"));
        world.move_account(1, 1);
        world.stall("audit-0", seconds(10)).await;
        world.begin(&killed.0, killed.1);
        world.heals().await;
    });
}

/// Two runs of a seed send the same commands at the same times, and also if the machine stops during one of them.
#[test]
#[cfg_attr(not(tokio_unstable), ignore = "built without --cfg tokio_unstable, which .cargo/config.toml sets")]
fn same_seed_repeats_the_same_run() {
    let first = super::faults::run(11);
    assert!(first.traffic.commands > 1000, "{first:?}");
    assert_eq!(first, super::faults::run(11));
    assert_eq!(first, super::faults::run_with_a_stop(11));
}

#[test]
fn proxy_that_shuts_down_leaves_no_message_to_others() {
    for seed in 0..20 {
        run_paused(seed, async {
            let world = World::start_open(Size { proxies: 1, ..SMALL }, CONFERENCES).await;
            let proxy = &world.processes[world.process("proxy-0")];
            // Until the network delays a message that the server has given to the proxy.
            proxy.stall(true);
            sleep(seconds(1)).await;
            while world.servers.redis.unacknowledged() == 0 {
                assert!(clock::elapsed_ms() < 600_000, "no message is delayed");
                proxy.stall(false);
                sleep(seconds(5)).await;
                proxy.stall(true);
                sleep(seconds(1)).await;
            }
            let delay = async {
                sleep(Duration::from_millis(100)).await;
                proxy.stall(false);
            };
            tokio::join!(proxy.shut_down(), delay);
            assert_eq!(world.servers.redis.unacknowledged(), 0, "seed {seed}");
        });
    }
}
