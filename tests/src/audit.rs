//! Who wrote what: every detail of a conference names the unit and the epoch of its write, and both must be those of the
//! assignment on record, whenever it is looked.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::raw::{RawClient, Reply};
use crate::realms::REALM;

/// A conference as the auditor sees it, in one step of the server.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) state: String,
    pub(crate) cmu: String,
    pub(crate) epoch: u64,
    /// Unit and epoch of the last assignment on record.
    last: String,
    /// Unit and epoch that its last write names.
    pub(crate) written: String,
    /// When that was written, in milliseconds since 1970.
    pub(crate) at: u128,
}

const AUDIT: &str = "local rows = {}
for i, e164 in ipairs(ARGV) do
  local c = redis.pcall('CONF.INFO', KEYS[1], e164)
  if c.err then rows[i] = {'none', '', '0', '', ''} else
    local g = redis.call('CONF.GET', KEYS[1], e164, 'chatter')
    local h = redis.call('CONF.HISTORY', KEYS[1], e164)
    local l = h[#h] or {}
    local f = {}
    for j = 1, #l, 2 do f[l[j]] = l[j + 1] end
    rows[i] = {c[4], c[6] or '', string.format('%.0f', c[8]), (f.cmu or '') .. ' ' .. string.format('%.0f', f.epoch or 0), g[1] or ''}
  end
end
return rows";

/// Looks at these conferences, all in one step of the server.
pub(crate) fn audit(client: &mut RawClient, numbers: &[&String]) -> Option<Vec<Row>> {
    let mut words = vec!["EVAL", AUDIT, "1", REALM];
    words.extend(numbers.iter().map(|number| number.as_str()));
    let Reply::Array(rows) = client.try_call(&words)? else { return None };
    let text = |reply: &Reply| if reply.is_null() { String::new() } else { reply.text() };
    let row = |row: &Reply| {
        let [state, cmu, epoch, last, written] = row.array() else { panic!("an odd row: {row:?}") };
        let written = text(written);
        let mut words = written.split(' ');
        let written = match (words.next(), words.next()) {
            (Some(cmu), Some(epoch)) => format!("{cmu} {epoch}"),
            _ => String::new(),
        };
        let at = words.nth(1).and_then(|at| at.parse().ok()).unwrap_or(0);
        let epoch = text(epoch).parse().unwrap_or(0);
        Row { state: text(state), cmu: text(cmu), epoch, last: text(last), written, at }
    };
    Some(rows.iter().map(row).collect())
}

/// Looks again and again whether what is written was written by the owner at its epoch.
#[derive(Debug)]
pub(crate) struct Auditor {
    pub(crate) port: Arc<AtomicU16>,
    numbers: Arc<Mutex<Vec<String>>>,
    faults: Arc<Mutex<Vec<String>>>,
    pub(crate) looked: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Auditor {
    pub(crate) fn begin(port: u16) -> Self {
        let port = Arc::new(AtomicU16::new(port));
        let numbers: Arc<Mutex<Vec<String>>> = Arc::default();
        let faults: Arc<Mutex<Vec<String>>> = Arc::default();
        let (looked, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let thread = {
            let (port, numbers, faults) = (port.clone(), numbers.clone(), faults.clone());
            let (looked, stop) = (looked.clone(), stop.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(100));
                    let all = numbers.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let all: Vec<&String> = all.iter().collect();
                    let Some(mut client) = RawClient::try_connect(port.load(Ordering::SeqCst)) else {
                        continue;
                    };
                    for (row, e164) in audit(&mut client, &all).unwrap_or_default().iter().zip(&all) {
                        if row.written.is_empty() || matches!(row.state.as_str(), "none" | "ended") {
                            continue;
                        }
                        looked.fetch_add(1, Ordering::SeqCst);
                        // While it waits for recovery its details are those of the last assignment.
                        let owner = if row.state == "pending" {
                            row.last.clone()
                        } else {
                            format!("{} {}", row.cmu, row.epoch)
                        };
                        if row.written != owner {
                            let fault = format!("{e164}: a write of {} was accepted: {row:?}", row.written);
                            faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
                        }
                    }
                }
            })
        };
        Self { port, numbers, faults, looked, stop, thread: Some(thread) }
    }

    pub(crate) fn watch(&self, numbers: Vec<String>) {
        *self.numbers.lock().unwrap_or_else(PoisonError::into_inner) = numbers;
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(
            faults.is_empty(),
            "{} stale writes:\n{}",
            faults.len(),
            faults.iter().take(5).cloned().collect::<Vec<_>>().join("\n")
        );
    }
}

impl Drop for Auditor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
