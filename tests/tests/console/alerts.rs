//! Rules of the settings: the page tells when they are met, and so does a webhook.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use allot_tests::consoles::Console;
use allot_tests::daemon::run;
use allot_tests::module::python;
use allot_tests::process::Process;
use allot_tests::tls::Certificates;
use allot_tests::{RedisServer, eventually};
use serde_json::Value;

use crate::SOON;
use crate::actions::{opened, shows};

/// A server that answers each request, and the bodies of the requests.
fn receiver() -> (u16, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(&stream);
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            (&stream).write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
            if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (port, bodies)
}

#[test]
fn rule_that_is_met_is_in_the_title_and_posted() {
    let server = RedisServer::start();
    for line in [
        "NUMPOOL.ADD {p} 1001 1002",
        "NUMPOOL.REG {p} 1001 1002",
        "CONF.REALM {r}:conf CREATETIMEOUT 600000",
        "CMU.JOIN {r}:conf u1 CAPACITY 5 LEASE 600000",
        "CONF.CREATE {r}:conf 4930",
    ] {
        server.command(line);
    }
    let (port, posted) = receiver();
    let file = server.dir().join("webhook");
    fs::write(&file, format!("http://127.0.0.1:{port}/hook?key=secret\n")).unwrap();
    let rules = "busy {p} > 40% for 1s,unrecovered > 0 for 3s,refusals > 1000/s";
    let more = ["--console-alerts", rules, "--console-webhook-file", file.to_str().unwrap()];
    let console = Console::start(&server, &more);
    let browser = opened(&console, "/pool?key=%7Bp%7D");
    shows(&browser, "no live calls");
    let next = |rule: &str, fires: bool| {
        let body = posted.recv_timeout(SOON).unwrap();
        assert_eq!((body["rule"].as_str(), body["fires"].as_bool()), (Some(rule), Some(fires)), "{body}");
        assert_eq!(body["console"].as_str(), Some(&console.address("")[..]));
    };
    server.command("NUMPOOL.CALL {p} TTL 600000 LEASE call-1");
    browser.wait_for("the badge", "document.title === '(1) Pool {p} · Allot'", SOON);
    let alerts = "document.querySelector('.alerts').innerText";
    browser.wait_for(
        "the rule",
        &format!("/busy {{p}} > 40% for 1s\\s+since .*, now 50/.test({alerts})"),
        SOON,
    );
    next("busy {p} > 40% for 1s", true);
    server.command("CMU.DOWN {r}:conf u1");
    browser.wait_for("both", "document.title.startsWith('(2) ')", SOON);
    next("unrecovered > 0 for 3s", true);
    server.command("NUMPOOL.HANGUP {p} 1001 LEASE call-1");
    server.command("CONF.RELEASE {r}:conf 4930");
    browser.wait_for("the end", "document.title === 'Pool {p} · Allot'", SOON);
    let ends: Vec<bool> = (0..2).map(|_| posted.recv_timeout(SOON).unwrap()["fires"] == true).collect();
    assert_eq!(ends, [false, false]);
    let log = console.process.log();
    assert!(log.contains("an alert begins") && !log.contains("secret"), "{log}");
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn rule_that_is_wrong_is_refused_at_the_start() {
    let server = RedisServer::start();
    let refused = run(&server, &["console", "--console-alerts", "sells > 5/s"]).ended(3);
    assert!(refused.err.contains("console.alerts") && refused.err.contains("sells"), "{}", refused.err);
}

/// A server with a certificate, which prints its port and then the body of each request.
const SECURE: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.path, self.rfile.read(int(self.headers["content-length"])).decode(), flush=True)
        self.send_response(204)
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print("port", server.server_port, flush=True)
server.serve_forever()
"#;

#[test]
fn alert_is_posted_by_https_to_a_server_with_a_known_certificate() {
    let server = RedisServer::start();
    server.command("NUMPOOL.ADD {p} 1001");
    let (known, unknown) = (Certificates::new(), Certificates::new());
    let (certificate, key) = (known.file("leaf.pem"), known.file("leaf.key"));
    let receiver = Process::other("receiver", python(), &["-c", SECURE, &certificate, &key]);
    receiver.start();
    let mut port = String::new();
    eventually("the receiver to listen", SOON, || {
        port =
            receiver.log().lines().find_map(|line| line.strip_prefix("port ")).unwrap_or_default().to_owned();
        !port.is_empty()
    });
    let file = server.dir().join("webhook");
    fs::write(&file, format!("https://localhost:{port}/hook\n")).unwrap();
    let rules = "busy {p} < 1% for 0s";
    let more = ["--console-alerts", rules, "--console-webhook-file", file.to_str().unwrap()];
    let start =
        |ca: &Certificates| Console::start_with(&server, &more, &[("SSL_CERT_FILE", &ca.file("ca.pem"))]);
    let wary = start(&unknown);
    let console = start(&known);
    let posted = || {
        let log = receiver.log();
        let bodies = log.lines().filter_map(|line| line.strip_prefix("/hook "));
        bodies.map(|body| serde_json::from_str(body).unwrap()).collect::<Vec<Value>>()
    };
    eventually("the alert", SOON, || !posted().is_empty());
    // The last attempt of the other one is after 35 s.
    let refused = || wary.process.log().contains("could not be posted to the webhook");
    eventually("the refused certificate", 3 * SOON, refused);
    let consoles: Vec<Value> = posted().iter().map(|body| body["console"].clone()).collect();
    assert_eq!(consoles, [Value::from(console.address(""))]);
}
