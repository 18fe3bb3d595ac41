//! Requests by HTTP, one on each connection.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::wait::TIMEOUT;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: String,
}

impl Answer {
    /// A header; empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// A connection on which a request was sent by this version of HTTP.
fn sent(port: u16, version: &str, request: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the port is open");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    let mut lines = vec![format!("{request} {version}"), "Connection: close".to_owned()];
    lines.push(format!("Content-Length: {}", body.len()));
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        lines.push(format!("Host: 127.0.0.1:{port}"));
    }
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    write!(stream, "{}\r\n\r\n{body}", lines.join("\r\n")).expect("the request is sent");
    stream
}

/// The same, with the head of the answer read.
fn send(
    port: u16,
    version: &str,
    request: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (Answer, BufReader<TcpStream>) {
    let mut reader = BufReader::new(sent(port, version, request, headers, body));
    let mut line = String::new();
    reader.read_line(&mut line).expect("a status line");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).expect("a header");
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    (Answer { status, headers, body: String::new() }, reader)
}

/// Sends a request and leaves: when `left` returns, the connection is closed before an answer came.
#[track_caller]
pub fn abandon(port: u16, request: &str, headers: &[(&str, &str)], body: &str, left: impl FnOnce()) {
    let stream = sent(port, "HTTP/1.1", request, headers, body);
    left();
    drop(stream);
}

/// Sends a request, such as `GET /path`, and reads its answer.
#[track_caller]
pub fn request(port: u16, request: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let (mut answer, mut reader) = send(port, "HTTP/1.1", request, headers, body);
    match answer.header("content-length").parse::<usize>() {
        Ok(length) => {
            let mut bytes = vec![0; length];
            reader.read_exact(&mut bytes).expect("the body");
            answer.body = String::from_utf8_lossy(&bytes).into_owned();
        }
        Err(_) => drop(reader.read_to_string(&mut answer.body).expect("the body")),
    }
    answer
}

/// An open stream of Server-Sent Events.
pub struct Events(BufReader<TcpStream>);

impl Events {
    /// Opens a stream.
    #[track_caller]
    pub fn open(port: u16, path: &str) -> Self {
        // By HTTP/1.0 a stream is not divided into chunks.
        let (answer, reader) = send(port, "HTTP/1.0", &format!("GET {path}"), &[], "");
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), "text/event-stream");
        Self(reader)
    }

    /// The data of the next event of this name, of any topic. Others are skipped.
    #[track_caller]
    pub fn next(&mut self, name: &str) -> serde_json::Value {
        let mut event = String::new();
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < TIMEOUT, "no event {name} came; the last one was {event}");
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("a line in time") > 0, "the stream has ended");
            if let Some(named) = line.strip_prefix("event: ") {
                named.trim_end().clone_into(&mut event);
            } else if let Some(data) = line.strip_prefix("data: ")
                && event == name
            {
                let mut event: serde_json::Value = serde_json::from_str(data).expect("JSON");
                return event["data"].take();
            }
        }
    }
}
