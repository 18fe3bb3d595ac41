//! Programs that a simulation runs in place of processes. The simulation sees which programs run, and ends them as people
//! do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use allot_coordination::random;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use super::events::{MediaEvent, ProgramEnd};

/// How long a program may take to end after it was asked to.
pub const STOP_LIMIT: Duration = Duration::from_secs(2);

/// The pause between two details of a program.
const DETAIL_PAUSE: std::ops::Range<Duration> = Duration::from_secs(30)..Duration::from_secs(90);

thread_local! {
    /// The programs of this thread; `None` without a simulation.
    static PROGRAMS: RefCell<Option<Programs>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Programs {
    started: u64,
    running: BTreeMap<u64, Running>,
}

struct Running {
    e164: String,
    cmu: String,
    /// The last values of the details that the program wrote.
    details: BTreeMap<&'static str, String>,
    /// Ends the program as people do; taken when it was used, or the program was asked to end.
    people: Option<oneshot::Sender<()>>,
}

/// A program to start.
pub(super) struct Program {
    pub(super) e164: String,
    pub(super) cmu: String,
    /// Which start of the conference's media.
    pub(super) start: u64,
    pub(super) events: mpsc::Sender<MediaEvent>,
}

/// Begins a simulation of programs on this thread. No program runs.
pub fn begin() {
    PROGRAMS.set(Some(Programs::default()));
}

/// The conferences whose programs run, and their units.
pub fn running() -> Vec<(String, String)> {
    with(|programs| {
        let running = programs.running.values();
        running.map(|running| (running.e164.clone(), running.cmu.clone())).collect()
    })
    .unwrap_or_default()
}

/// The last values of the details of a conference, if one program runs for it.
pub fn details(e164: &str) -> BTreeMap<&'static str, String> {
    with(|programs| {
        let mut of = programs.running.values().filter(|running| running.e164 == e164);
        of.next().filter(|_| of.next().is_none()).map(|running| running.details.clone())
    })
    .flatten()
    .unwrap_or_default()
}

/// People end a conference on all units that have it; whether one had.
pub fn hang_up(e164: &str) -> bool {
    let ended = with(|programs| {
        let of = programs.running.values_mut().filter(|running| running.e164 == e164);
        of.filter_map(|running| running.people.take()?.send(()).ok()).count()
    });
    ended.unwrap_or_default() > 0
}

fn with<T>(act: impl FnOnce(&mut Programs) -> T) -> Option<T> {
    PROGRAMS.with_borrow_mut(|programs| programs.as_mut().map(act))
}

/// Starts a program after `earlier` has ended, if programs are simulated. It runs until `stop` is dropped or people end
/// it. The result is closed at its end.
pub(super) fn start(
    program: Program,
    earlier: Option<ProgramEnd>,
    mut stop: oneshot::Receiver<()>,
) -> Option<watch::Receiver<()>> {
    with(|_| ())?;
    let (running, ended) = watch::channel(());
    tokio::spawn(async move {
        if let Some(earlier) = earlier {
            earlier.wait().await;
        }
        if matches!(stop.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
            run(program, stop).await;
        }
        drop(running);
    });
    Some(ended)
}

async fn run(program: Program, stop: oneshot::Receiver<()>) {
    let Program { e164, cmu, start, events } = program;
    let (people, hung_up) = oneshot::channel();
    let number = with(|programs| {
        programs.started += 1;
        let (e164, details) = (e164.clone(), BTreeMap::new());
        let running = Running { e164, cmu, details, people: Some(people) };
        programs.running.insert(programs.started, running);
        programs.started
    });
    let number = number.unwrap_or_default();
    tokio::select! {
        biased;
        () = write_details(number, &e164, start, &events) => {}
        Ok(()) = hung_up => {
            let _ = events.send(MediaEvent::Ended { e164: e164.clone(), start }).await;
        }
        _ = stop => {
            let lag = random::within(Duration::ZERO..STOP_LIMIT);
            sleep(lag).await;
        }
    }
    with(|programs| programs.running.remove(&number));
}

/// Writes one detail at the start, and another one at times, until the unit is gone.
async fn write_details(number: u64, e164: &str, start: u64, events: &mpsc::Sender<MediaEvent>) {
    for count in 0.. {
        let (field, value) = (if count == 0 { "started" } else { "count" }, format!("{number}/{count}"));
        with(|programs| {
            let running = programs.running.get_mut(&number)?;
            running.details.insert(field, value.clone())
        });
        let (e164, field) = (e164.to_owned(), field.to_owned());
        if events.send(MediaEvent::Detail { e164, start, field, value }).await.is_err() {
            return;
        }
        sleep(random::within(DETAIL_PAUSE)).await;
    }
}
