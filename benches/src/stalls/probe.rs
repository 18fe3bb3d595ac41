//! Sends one request while another client asks for `PING`, and prints what that client saw.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use allot_tests::raw::{RawClient, Reply, encode};
use allot_tests::{RedisServer, eventually};

/// Requests in flight while values are filled.
const PIPELINE: usize = 1000;

/// The time between two requests of the watching client.
const INTERVAL: Duration = Duration::from_micros(200);

/// A server, and the client that sends what is measured.
pub(crate) struct Probe {
    pub(crate) server: RedisServer,
    pub(crate) client: RawClient,
}

impl Probe {
    pub(crate) fn start() -> Self {
        let server = RedisServer::start();
        let client = server.raw();
        Self { server, client }
    }

    /// Sends requests and counts on none of them being refused.
    pub(crate) fn fill(&mut self, requests: impl Iterator<Item = Vec<String>>) {
        let mut requests = requests.peekable();
        while requests.peek().is_some() {
            let batch: Vec<Vec<u8>> = requests.by_ref().take(PIPELINE).map(|words| encode(&words)).collect();
            self.client.send_bytes(&batch.concat());
            for _ in 0..batch.len() {
                let reply = self.client.read();
                assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
            }
        }
    }

    /// Sends many requests, and prints the longest time that the server took for one of them, by its slow log.
    pub(crate) fn longest(&mut self, name: &str, requests: impl Iterator<Item = Vec<String>>) {
        // The log has the requests of more than this many microseconds.
        for line in ["CONFIG SET slowlog-log-slower-than 100 slowlog-max-len 1000000", "SLOWLOG RESET"] {
            self.client.words(line);
        }
        let cpu = self.processor_time();
        let mut count = 0;
        self.fill(requests.inspect(|_| count += 1));
        let cpu = (self.processor_time() - cpu) * 1000.0;
        let log = self.client.words("SLOWLOG GET -1");
        let longest = log.array().iter().map(|entry| entry.array()[2].int()).max().unwrap_or(100);
        println!("| {name}, the longest of {count} | {:.1} | {cpu:.1} | |", longest as f64 / 1000.0);
    }

    /// Measures one request.
    pub(crate) fn measure<A: AsRef<[u8]>>(&mut self, name: &str, request: &[A]) {
        self.measure_all(name, &[encode(request)]);
    }

    /// Measures requests that are sent together.
    pub(crate) fn measure_all(&mut self, name: &str, requests: &[Vec<u8>]) {
        let bytes = requests.concat();
        self.watch(name, |probe| {
            probe.client.send_bytes(&bytes);
            let replies: Vec<Reply> = requests.iter().map(|_| probe.client.read()).collect();
            replies.last().map(brief).unwrap_or_default()
        });
    }

    /// Measures what the server does during `act`, whose result is printed.
    pub(crate) fn watch(&mut self, name: &str, act: impl FnOnce(&mut Self) -> String) {
        let (done, watching) = (AtomicBool::new(false), AtomicBool::new(false));
        let cpu = self.processor_time();
        let (worst, reply) = std::thread::scope(|threads| {
            let (done, watching) = (&done, &watching);
            let mut watcher = self.server.raw();
            let watcher = threads.spawn(move || {
                let mut worst = Duration::ZERO;
                while !done.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    watcher.words("PING");
                    worst = worst.max(asked.elapsed());
                    watching.store(true, Ordering::Relaxed);
                    std::thread::sleep(INTERVAL);
                }
                worst
            });
            eventually("the other client to ask", Duration::from_secs(10), || {
                watching.load(Ordering::Relaxed)
            });
            let reply = act(self);
            done.store(true, Ordering::Relaxed);
            (watcher.join().expect("the watcher"), reply)
        });
        let cpu = (self.processor_time() - cpu) * 1000.0;
        println!("| {name} | {:.1} | {cpu:.1} | {reply} |", worst.as_secs_f64() * 1000.0);
    }

    /// Seconds of processor time that the server has used.
    pub(crate) fn processor_time(&self) -> f64 {
        let info = self.server.info("cpu");
        let seconds =
            |field: &str| info.get(field).and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
        seconds("used_cpu_user") + seconds("used_cpu_sys")
    }
}

/// The kind of a reply, and the text of an error.
fn brief(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => text.chars().take(60).collect(),
        Reply::Simple(text) => text.clone(),
        Reply::Int(value) => value.to_string(),
        Reply::Bulk(bytes) => format!("{} bytes", bytes.len()),
        Reply::NullBulk | Reply::NullArray => "null".into(),
        _ => "record or list".into(),
    }
}
