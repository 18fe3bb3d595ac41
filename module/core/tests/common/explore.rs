//! An exhaustive exploration of a small world, breadth first: every order of its steps, to a depth or for a time. Equal
//! states are visited once. A fault is told with the shortest order of steps that leads to it.
//!
//! The crate `stateright` 0.31 was evaluated and not taken. Its breadth-first checker keeps each state that waits as a
//! value, with a vector of all steps that led there, and takes the last of a queue first, so that no path is the
//! shortest for certain; symmetry it has only depth first. A realm has kilobytes as a value and some hundred bytes
//! encoded. It would also bring twenty crates into the build of these tests, a web server among them.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_128;

/// A small world: its state, and what can happen next.
pub(crate) trait World: Sized {
    /// A step; its text says who does what.
    type Step: Display;

    /// All steps that may come next, always in the same order. Some may change nothing.
    fn steps(&self) -> Vec<Self::Step>;

    /// The world after a step; `None` if the step changes nothing.
    fn after(&self, step: &Self::Step) -> Option<Self>;

    /// What is wrong with this state, or with the step that led to it.
    fn fault(&self) -> Option<String>;

    /// Appends the state as bytes. Equal states have equal bytes.
    fn encode(&self, out: &mut Vec<u8>);

    /// The state of these bytes.
    fn decode(bytes: &[u8]) -> Self;
}

/// Where an exploration ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most steps from the beginning.
    pub(crate) depth: usize,
    /// The most states; each takes about 100 bytes until the end, and those of the last depth take their own.
    pub(crate) states: usize,
    pub(crate) time: Duration,
}

impl Limits {
    /// To this depth; with `ALLOT_SOAK` as deep as ten minutes allow, or as many seconds as `ALLOT_EXPLORE_SECONDS` says.
    pub(crate) fn to(depth: usize) -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| value != "0");
        let seconds = set("ALLOT_EXPLORE_SECONDS").map(|value| value.parse().expect("a number of seconds"));
        let seconds = seconds.or_else(|| set("ALLOT_SOAK").map(|_| 600));
        match seconds {
            Some(seconds) => {
                Self { depth: usize::MAX, states: 40_000_000, time: Duration::from_secs(seconds) }
            }
            None => Self { depth, states: usize::MAX, time: Duration::MAX },
        }
    }
}

/// What was visited.
pub(crate) struct Explored {
    states: usize,
    /// All orders of that many steps were tried.
    depth: usize,
    /// What is wrong, and the steps that lead there.
    fault: Option<String>,
}

impl Explored {
    /// Fails if a fault was found, or fewer states than the world had.
    pub(crate) fn found_nothing_in(self, least: usize) {
        let Self { states, depth, fault } = self;
        assert!(fault.is_none(), "{}", fault.unwrap_or_default());
        assert!(states >= least, "only {states} states, {depth} deep: the world has lost something");
    }
}

/// A hash is its own hash.
#[derive(Default)]
pub(crate) struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

/// The hashes of states that were visited.
pub(crate) type Seen = HashSet<u128, BuildHasherDefault<Same>>;

/// Sets of visited states. Each has a lock of its own, so that threads seldom wait for each other.
pub(crate) const SHARDS: usize = 64;

/// The first step of a path has no state before it.
const NONE: u32 = u32::MAX;

/// A state to go on from: its number, and its bytes.
type Waiting = (u32, Box<[u8]>);

/// A state that was not visited before: the state and the step that led there, and what is wrong.
struct Found {
    from: (u32, u16),
    bytes: Box<[u8]>,
    fault: Option<String>,
}

struct Search {
    limits: Limits,
    began: Instant,
    seen: Vec<Mutex<Seen>>,
    steps: AtomicUsize,
    states: AtomicUsize,
    is_over: AtomicBool,
}

/// The result, or the text of the panic.
fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        text.or_else(|| cause.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "panic".into())
    })
}

impl Search {
    fn is_new(&self, bytes: &[u8]) -> bool {
        let hash = xxh3_128(bytes);
        self.seen[(hash >> 64) as usize % SHARDS].lock().unwrap().insert(hash)
    }

    /// The states that follow one of these and were not visited before.
    fn expand<W: World>(&self, layer: &[Waiting]) -> Vec<Found> {
        let (mut found, mut bytes) = (Vec::new(), Vec::new());
        for (number, state) in layer {
            let is_late = self.began.elapsed() >= self.limits.time;
            if is_late || self.states.load(Ordering::Relaxed) >= self.limits.states {
                self.is_over.store(true, Ordering::Relaxed);
            }
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let world = W::decode(state);
            for (place, step) in world.steps().iter().enumerate() {
                let from = (*number, place as u16);
                let next = match caught(|| world.after(step)) {
                    Ok(None) => continue,
                    Ok(Some(next)) => next,
                    Err(panic) => {
                        found.push(Found { from, bytes: Box::default(), fault: Some(panic) });
                        continue;
                    }
                };
                self.steps.fetch_add(1, Ordering::Relaxed);
                bytes.clear();
                next.encode(&mut bytes);
                if self.is_new(&bytes) {
                    self.states.fetch_add(1, Ordering::Relaxed);
                    let fault = caught(|| next.fault()).unwrap_or_else(Some);
                    found.push(Found { from, bytes: bytes.as_slice().into(), fault });
                }
            }
            if found.last().is_some_and(|found| found.fault.is_some()) {
                break;
            }
        }
        found
    }
}

/// Explores a world from each of these beginnings.
pub(crate) fn explore<W: World>(limits: Limits, beginnings: Vec<(&str, W)>) -> Explored {
    let search = Search {
        limits,
        began: Instant::now(),
        seen: (0..SHARDS).map(|_| Mutex::default()).collect(),
        steps: AtomicUsize::new(0),
        states: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    };
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let (names, worlds): (Vec<&str>, Vec<W>) = beginnings.into_iter().unzip();
    // How each state was first reached, by its number.
    let mut trail: Vec<(u32, u16)> = Vec::new();
    let mut layer: Vec<Waiting> = Vec::new();
    let (mut depth, mut fault) = (0, None);
    let begin = worlds.iter().enumerate().map(|(place, world)| {
        let mut bytes = Vec::new();
        world.encode(&mut bytes);
        search.is_new(&bytes);
        search.states.fetch_add(1, Ordering::Relaxed);
        Found { from: (NONE, place as u16), bytes: bytes.into(), fault: world.fault() }
    });
    let mut found: Vec<Found> = begin.collect();
    loop {
        layer.clear();
        for Found { from, bytes, fault: wrong } in found {
            let number = u32::try_from(trail.len()).expect("a number of a state has 32 bits");
            trail.push(from);
            if let Some(wrong) = wrong {
                fault.get_or_insert((wrong, number));
            }
            layer.push((number, bytes));
        }
        let is_over = search.is_over.load(Ordering::Relaxed);
        if fault.is_some() || is_over || layer.is_empty() || depth >= limits.depth {
            // What is left of a depth that was begun is not explored.
            depth -= usize::from(is_over);
            break;
        }
        depth += 1;
        let parts = layer.chunks(layer.len().div_ceil(workers));
        found = std::thread::scope(|scope| {
            let works: Vec<_> = parts.map(|part| scope.spawn(|| search.expand::<W>(part))).collect();
            works.into_iter().flat_map(|work| work.join().unwrap()).collect()
        });
    }
    let fault = fault.map(|(wrong, number)| {
        let lines: Vec<String> = path(&trail, number, &names, &worlds);
        format!("{wrong}\n{}", lines.join("\n"))
    });
    let (states, steps) = (search.states.into_inner(), search.steps.into_inner());
    let seconds = search.began.elapsed().as_secs_f64();
    eprintln!("{states} states, {steps} steps, {depth} deep, {seconds:.1} s");
    Explored { states, depth, fault }
}

/// The steps that lead to a state, each on a line.
fn path<W: World>(trail: &[(u32, u16)], to: u32, names: &[&str], worlds: &[W]) -> Vec<String> {
    let mut places = Vec::new();
    let mut at = to;
    while at != NONE {
        let (before, place) = trail[at as usize];
        places.push(usize::from(place));
        at = before;
    }
    let first = places.pop().expect("a path has a beginning");
    let mut lines = vec![format!("from: {}", names[first])];
    let mut bytes = Vec::new();
    worlds[first].encode(&mut bytes);
    let mut world = W::decode(&bytes);
    for (count, place) in places.into_iter().rev().enumerate() {
        let step = world.steps().swap_remove(place);
        lines.push(format!("{:>3}. {step}", count + 1));
        match caught(|| world.after(&step)) {
            Ok(Some(next)) => world = next,
            _ => break,
        }
    }
    lines
}
