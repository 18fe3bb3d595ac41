//! A fake server: it accepts every command, records it, and delivers messages to a unit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::TIMEOUT;

#[derive(Default)]
pub(super) struct Server {
    pub(super) port: u16,
    pub(super) heard: Mutex<Vec<String>>,
    pub(super) commands: Mutex<Vec<String>>,
    pub(super) is_cut: AtomicBool,
    /// Bytes accepted per millisecond; 0 for no limit.
    pub(super) speed: AtomicU64,
    /// Whether it answers RELEASE to every ACK.
    pub(super) releases: AtomicBool,
    pub(super) has_replica: AtomicBool,
    /// Whether its replica confirms writes.
    pub(super) is_confirmed: AtomicBool,
    /// Progress of telling the unit that another unit replaced it.
    replacing: Mutex<Replacing>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replacing {
    #[default]
    No,
    /// The next heartbeat is refused.
    Wanted,
    /// A heartbeat waits for its answer.
    Beaten,
    /// The heartbeat may be answered.
    Said,
}

impl Server {
    pub(super) async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Arc::new(Self { port: listener.local_addr().unwrap().port(), ..Self::default() });
        let ours = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(ours.clone().serve(stream));
            }
        });
        server
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let count = number(&mut stream).await?;
            let mut words = Vec::new();
            for _ in 0..count {
                let mut word = vec![0; number(&mut stream).await? + 2];
                stream.read_exact(&mut word).await.ok()?;
                word.truncate(word.len() - 2);
                words.push(String::from_utf8_lossy(&word).into_owned());
            }
            let (line, speed) = (words.join(" "), self.speed.load(Ordering::Relaxed));
            if let Some(pause) = (line.len() as u64).checked_div(speed) {
                sleep(Duration::from_millis(pause)).await;
            }
            let reply = self.reply(&words).await;
            if self.is_cut.load(Ordering::Relaxed) {
                return None;
            }
            self.heard.lock().unwrap().push(line);
            stream.write_all(reply.as_bytes()).await.ok()?;
        }
    }

    async fn reply(&self, words: &[String]) -> String {
        match words[0].as_str() {
            "ROLE" if self.has_replica.load(Ordering::Relaxed) => {
                "*3 $6 master :0 *1 *3 $9 127.0.0.1 $4 7001 $1 0 ".replace(' ', "\r\n")
            }
            "WAIT" => format!(":{}\r\n", u8::from(self.is_confirmed.load(Ordering::Relaxed))),
            "CONF.ACK" if self.releases.load(Ordering::Relaxed) => "$7\r\nRELEASE\r\n".to_owned(),
            "CMU.BEAT" if self.is_at(Replacing::Wanted) => {
                self.put(Replacing::Beaten);
                self.comes_to(Replacing::Said).await;
                "-STALE another unit took its place\r\n".to_owned()
            }
            "CMU.BEAT" => {
                let fields =
                    [("used", ":0"), ("failures", ":0"), ("backoff_until", "$-1"), ("conflict", "$-1")];
                let field = |(name, value): (&str, &str)| format!("${}\r\n{name}\r\n{value}\r\n", name.len());
                format!("*{}\r\n{}", 2 * fields.len(), fields.map(field).concat())
            }
            "ROLE" => "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".to_owned(),
            "CMU.REPORT" => {
                let fields = ":0 adopted *0 released *0 ended *0 lost *0".replace(' ', "\r\n");
                let fields = ["adopted", "released", "ended", "lost"]
                    .iter()
                    .fold(fields, |all, name| all.replace(name, &format!("${}\r\n{name}", name.len())));
                format!("*10\r\n$4\r\nkept\r\n{fields}\r\n")
            }
            "XREAD" => {
                let after: usize = words.last().unwrap().split('-').next().unwrap().parse().unwrap();
                for _ in 0..20 {
                    let commands = self.commands.lock().unwrap().clone();
                    if commands.len() > after {
                        return entries(&commands, after);
                    }
                    sleep(Duration::from_millis(5)).await;
                }
                "*-1\r\n".to_owned()
            }
            _ => "+OK\r\n".to_owned(),
        }
    }

    pub(super) fn put(&self, replacing: Replacing) {
        *self.replacing.lock().unwrap() = replacing;
    }

    fn is_at(&self, replacing: Replacing) -> bool {
        *self.replacing.lock().unwrap() == replacing
    }

    pub(super) async fn comes_to(&self, replacing: Replacing) {
        while !self.is_at(replacing) {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Delivers messages to the unit.
    pub(super) fn tell(&self, commands: &[&str]) {
        self.commands.lock().unwrap().extend(commands.iter().map(|&command| command.to_owned()));
    }

    /// The position of the first command with this prefix.
    pub(super) fn find(&self, start: &str) -> Option<usize> {
        self.heard.lock().unwrap().iter().position(|line| line.starts_with(start))
    }

    pub(super) fn count(&self, start: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|line| line.starts_with(start)).count()
    }

    pub(super) async fn hears_more(&self, start: &str, before: usize) {
        let look = async {
            while self.count(start) <= before {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(TIMEOUT, look).await.unwrap_or_else(|_| panic!("no more {start}"));
    }

    pub(super) async fn hears(&self, start: &str) -> usize {
        let look = async {
            loop {
                if let Some(at) = self.find(start) {
                    return at;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(TIMEOUT, look).await.unwrap_or_else(|_| panic!("{start}: {:?}", self.heard.lock().unwrap()))
    }
}

async fn number(stream: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.get(1..)?.trim().parse().ok()
}

fn entries(commands: &[String], after: usize) -> String {
    let entry = |(at, command): (usize, &String)| {
        let words: Vec<String> =
            command.split(' ').map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let id = format!("{}-0", at + 1);
        format!("*2\r\n${}\r\n{id}\r\n*{}\r\n{}", id.len(), words.len(), words.concat())
    };
    let entries: Vec<String> = commands.iter().enumerate().skip(after).map(entry).collect();
    format!("*1\r\n*2\r\n$1\r\ns\r\n*{}\r\n{}", entries.len(), entries.concat())
}
