//! Programs that a simulation runs in place of processes. The simulation sees which programs run, and ends them as people
//! do.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use allot_coordination::random;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use super::events::{MediaEvent, ProgramEnd, Readiness};
use super::state::ConferenceState;

/// How long a program may take to end after it was asked to.
pub const STOP_LIMIT: Duration = Duration::from_secs(2);

/// How long a program may take until it is ready.
const READY_LIMIT: Duration = Duration::from_secs(3);

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
    /// Conferences and units whose programs were ready.
    ready: BTreeSet<(String, String)>,
    /// Hosts whose unit cannot start programs.
    refusing: BTreeSet<String>,
}

struct Running {
    e164: String,
    cmu: String,
    /// The last values of the details that the program wrote.
    details: BTreeMap<&'static str, String>,
    /// What the unit tells the program.
    told: watch::Receiver<ConferenceState>,
    /// Whether people can join.
    is_ready: bool,
    /// Ends the program as people do, or has it fail for good; taken when it was used, or the program was asked to end.
    end: Option<oneshot::Sender<End>>,
}

/// How a program ends by itself.
#[derive(Clone, Copy)]
enum End {
    People,
    Failure,
}

/// A program to start.
pub(super) struct Program {
    pub(super) e164: String,
    pub(super) cmu: String,
    /// Which start of the conference's media.
    pub(super) start: u64,
    /// What the unit tells the program.
    pub(super) told: watch::Receiver<ConferenceState>,
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

/// How many programs were started so far.
pub fn started() -> u64 {
    with(|programs| programs.started).unwrap_or_default()
}

/// The last values of the details of a conference, if one program runs for it.
pub fn details(e164: &str) -> BTreeMap<&'static str, String> {
    the_only(e164, |running| running.details.clone()).unwrap_or_default()
}

/// The planned end and the size that the program of a conference was last told, if one program runs for it.
pub fn told(e164: &str) -> Option<(String, String)> {
    the_only(e164, |running| {
        let told = running.told.borrow();
        (told.end.clone(), told.size.clone())
    })
}

fn the_only<T>(e164: &str, look: impl FnOnce(&Running) -> T) -> Option<T> {
    with(|programs| {
        let mut of = programs.running.values().filter(|running| running.e164 == e164);
        of.next().filter(|_| of.next().is_none()).map(look)
    })
    .flatten()
}

/// The unit of a host can no longer start programs, as if their file were missing; or it can again.
pub fn refuse(host: &str, refuses: bool) {
    with(
        |programs| {
            if refuses { programs.refusing.insert(host.to_owned()) } else { programs.refusing.remove(host) }
        },
    );
}

/// Whether the unit of this identity cannot start programs.
fn refuses(cmu: &str) -> bool {
    let host = cmu.rsplitn(3, ':').last().unwrap_or_default();
    with(|programs| programs.refusing.contains(host)).unwrap_or_default()
}

/// Whether people could ever join the conference on this unit.
pub fn was_ready(e164: &str, cmu: &str) -> bool {
    with(|programs| programs.ready.contains(&(e164.to_owned(), cmu.to_owned()))).unwrap_or_default()
}

/// People end a conference on all units where they can join; whether one had.
pub fn hang_up(e164: &str) -> bool {
    end(e164, End::People)
}

/// The programs of a conference fail for good, on all units that have them; whether one had.
pub fn fail(e164: &str) -> bool {
    end(e164, End::Failure)
}

fn end(e164: &str, how: End) -> bool {
    let ended = with(|programs| {
        let of = programs.running.values_mut().filter(|running| running.e164 == e164);
        let may_end = |running: &&mut Running| running.is_ready || matches!(how, End::Failure);
        of.filter(may_end).filter_map(|running| running.end.take()?.send(how).ok()).count()
    });
    ended.unwrap_or_default() > 0
}

fn with<T>(act: impl FnOnce(&mut Programs) -> T) -> Option<T> {
    PROGRAMS.with_borrow_mut(|programs| programs.as_mut().map(act))
}

/// Starts a program after `earlier` has ended, if programs are simulated. It runs until `stop` is dropped, people end it
/// or it fails. The first result is closed at its end; the second hears whether it is ready.
pub(super) fn start(
    program: Program,
    earlier: Option<ProgramEnd>,
    mut stop: oneshot::Receiver<()>,
) -> Option<(watch::Receiver<()>, Readiness)> {
    with(|_| ())?;
    let (running, ended) = watch::channel(());
    let (report_ready, ready) = oneshot::channel();
    tokio::spawn(async move {
        if let Some(earlier) = earlier {
            earlier.wait().await;
        }
        if matches!(stop.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
            run(program, report_ready, stop).await;
        }
        drop(running);
    });
    Some((ended, ready))
}

async fn run(
    program: Program,
    report_ready: oneshot::Sender<Result<(), String>>,
    stop: oneshot::Receiver<()>,
) {
    let Program { e164, cmu, start, told, events } = program;
    if refuses(&cmu) {
        let _ = report_ready.send(Err("cannot be started in the simulation".to_owned()));
        return;
    }
    let (end, mut ended) = oneshot::channel();
    let number = with(|programs| {
        programs.started += 1;
        let (e164, details) = (e164.clone(), BTreeMap::new());
        let running = Running { e164, cmu, details, told, is_ready: false, end: Some(end) };
        programs.running.insert(programs.started, running);
        programs.started
    });
    let number = number.unwrap_or_default();
    let until_ready = random::within(Duration::ZERO..READY_LIMIT);
    let mut report_ready = Some(report_ready);
    let serve = async {
        sleep(until_ready).await;
        with(|programs| {
            let running = programs.running.get_mut(&number)?;
            running.is_ready = true;
            programs.ready.insert((running.e164.clone(), running.cmu.clone()));
            Some(())
        });
        if let Some(report) = report_ready.take() {
            let _ = report.send(Ok(()));
        }
        write_details(number, &e164, start, &events).await;
    };
    tokio::select! {
        biased;
        Ok(how) = &mut ended => {
            let (e164, reason) = (e164.clone(), "fails in the simulation".to_owned());
            match (how, report_ready.take()) {
                (_, Some(report)) => drop(report.send(Err(reason))),
                (End::People, None) => drop(events.send(MediaEvent::Ended { e164, start }).await),
                (End::Failure, None) => drop(events.send(MediaEvent::Failed { e164, start, reason }).await),
            }
        }
        () = serve => {}
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
