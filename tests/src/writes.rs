//! Every accepted write: read from the stream of the master, where each is one event. A write names the unit and the
//! epoch at which it was made, and no write of an older assignment may be accepted after a newer assignment.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use allot_core::conf::{ConferenceEvent, Event};
use allot_core::shared::codec::Reader;

use crate::stream::{self, Command, ReplicationStream};

/// Reads the stream of one master after another.
#[derive(Debug)]
pub(crate) struct Writes {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    port: AtomicU16,
    link: Mutex<Option<TcpStream>>,
    /// Writes that were seen, and what was wrong with some.
    seen: AtomicU64,
    faults: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Shared {
    fn cut(&self) {
        if let Some(link) = self.link.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = link.shutdown(Shutdown::Both);
        }
    }

    /// One stream, to its end. What another master knew counts no more: it may have forgotten the last of it.
    fn follow(&self) -> std::io::Result<()> {
        let port = self.port.load(Ordering::SeqCst);
        let mut stream = ReplicationStream::try_attach(port, |link| {
            *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link.try_clone().ok();
        })?;
        let mut assignments = Assignments::default();
        while !self.stop.load(Ordering::SeqCst) && port == self.port.load(Ordering::SeqCst) {
            for event in events_of(&stream.next()?) {
                assignments.judge(&event).into_iter().for_each(|verdict| self.note(verdict));
            }
        }
        Ok(())
    }

    fn note(&self, verdict: Result<(), String>) {
        self.seen.fetch_add(1, Ordering::SeqCst);
        if let Err(fault) = verdict {
            self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
        }
    }
}

/// The newest assignment of each conference, by its epoch, as the stream of one master tells it.
#[derive(Debug, Default)]
pub struct Assignments(BTreeMap<Vec<u8>, u64>);

impl Assignments {
    /// Looks at the next event. For a write that names its unit and epoch: whether it may follow what came before,
    /// otherwise what is wrong with it.
    pub fn judge(&mut self, event: &Event) -> Option<Result<(), String>> {
        match event {
            Event::Created(created) => drop(self.0.insert(created.e164.to_vec(), created.epoch)),
            Event::Conference {
                e164,
                event: ConferenceEvent::Granted { epoch, .. } | ConferenceEvent::Adopted { epoch, .. },
            } => {
                self.0.insert(e164.to_vec(), *epoch);
            }
            Event::Conference { e164, event: ConferenceEvent::Set { fields, .. } } => {
                let (cmu, epoch) = written(fields)?;
                // A move changes the owner later, and by a word of its own; then the number rises by itself.
                let newest = self.0.entry(e164.to_vec()).or_insert(epoch);
                let fault = (epoch < *newest).then(|| {
                    let e164 = String::from_utf8_lossy(e164);
                    format!("{e164}: a write of {cmu} at {epoch} was accepted after {newest}")
                });
                *newest = epoch.max(*newest);
                return Some(fault.map_or(Ok(()), Err));
            }
            _ => {}
        }
        None
    }
}

/// The unit and the epoch that the field `chatter` of a write names.
fn written(fields: &[u8]) -> Option<(String, u64)> {
    let mut reader = Reader::new(fields);
    loop {
        let (field, value) = (reader.string().ok()?, reader.string().ok()?);
        if field == b"chatter" {
            let text = String::from_utf8_lossy(value).into_owned();
            let (cmu, rest) = text.split_once(' ')?;
            return Some((cmu.to_owned(), rest.split(' ').next()?.parse().ok()?));
        }
    }
}

fn events_of(command: &Command) -> Vec<Event> {
    const APPLY: &str = "CONF.APPLY";
    if command[0] == APPLY.as_bytes() { stream::events_of(APPLY, command).1 } else { Vec::new() }
}

impl Writes {
    pub(crate) fn begin(port: u16) -> Self {
        let shared = Arc::new(Shared { port: AtomicU16::new(port), ..Shared::default() });
        let thread = {
            let shared = shared.clone();
            std::thread::spawn(move || {
                while !shared.stop.load(Ordering::SeqCst) {
                    // The master may be gone, or not the master yet.
                    if shared.follow().is_err() {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            })
        };
        Self { shared, thread: Some(thread) }
    }

    /// Another server is the master.
    pub(crate) fn lead_to(&self, port: u16) {
        self.shared.port.store(port, Ordering::SeqCst);
        self.shared.cut();
    }

    /// How many writes were looked at.
    pub(crate) fn seen(&self) -> u64 {
        self.shared.seen.load(Ordering::SeqCst)
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let faults = self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let some = faults.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
        assert!(faults.is_empty(), "{} stale writes:\n{some}", faults.len());
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.cut();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
