//! What Prometheus reads (docs/operate.md#prometheus), and the alert rules of docs/alerts.yml.

use std::collections::HashSet;
use std::fs;

use allot_runtime::metrics::METRICS;
use allot_tests::checkers::check;
use allot_tests::daemon::alone;
use allot_tests::module::repository;
use allot_tests::wait::TIMEOUT;
use allot_tests::{Cluster, Process, RedisServer, eventually};

const PLAN: &str =
    r#"{"areas":[{"id":"stalls","rows":[{"label":"A","rank":1,"tier":"gold","seats":"1-8"}]}]}"#;

/// The counters and gauges of the module, as this process shows them.
#[track_caller]
fn scrape(process: &Process) -> String {
    let (status, text) = process.http("/metrics/redis").expect("an answer");
    assert_eq!(status, 200, "{text}");
    text
}

#[track_caller]
fn hold_one(server: &RedisServer, show: &str) {
    let mut client = server.raw();
    let created = client.call(&["SEAT.CREATE", show, PLAN]);
    assert_eq!(created.text(), "OK");
    client.words(&format!("SEAT.HOLD {show} ann 1 TTL 60000 TOKEN t"));
}

#[test]
fn info_of_the_server_is_shown_with_its_types() {
    let server = RedisServer::start();
    let process = alone(&server, "scheduler", "scheduler", &[]);
    hold_one(&server, "show");
    let (text, label) = (scrape(&process), format!("{{server=\"{}\"}}", server.url().trim_end_matches('/')));
    for line in [
        format!("allot_redis_up{label} 1"),
        format!("allot_redis_module_loaded{label} 1"),
        "# TYPE allot_seat_held_total counter".to_owned(),
        format!("allot_seat_held_total{label} 1"),
        "# TYPE allot_seat_live_holds gauge".to_owned(),
        format!("allot_seat_live_holds{label} 1"),
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    let fields = server.info("allot");
    for field in fields.keys() {
        assert!(text.contains(&format!("# HELP {field}")), "no {field} in\n{text}");
    }
    server.shutdown();
    let text = scrape(&process);
    assert!(text.contains(&format!("\nallot_redis_up{label} 0\n")), "{text}");
    assert!(text.starts_with("# redis://") && !text.contains("allot_seat_held"), "{text}");
    assert!(process.metric("allot_scheduler_leading").is_some(), "its own metrics need no server");
}

#[test]
fn all_masters_of_a_cluster_are_shown() {
    let cluster = Cluster::start(3, 0);
    let nodes: Vec<String> = cluster.nodes().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let arguments = ["--roles", "data-proxy", "--name", "p", "--realm", "{allot}:conf"];
    let url = format!("redis+cluster://{}", nodes.join(","));
    let process = Process::new("p", &[&arguments[..], &["--redis-url", &url]].concat());
    process.start();
    eventually("its port", TIMEOUT, || process.http("/healthz").is_some());
    for (number, master) in cluster.masters().iter().enumerate() {
        let mut keys = (0..).map(|number| format!("show:{number}"));
        let show = keys.find(|key| cluster.master_for(key).port() == master.port()).unwrap();
        if number > 0 {
            hold_one(master, &show);
        }
    }
    let text = scrape(&process);
    let held: HashSet<&str> =
        text.lines().filter(|line| line.starts_with("allot_seat_held_total{")).collect();
    let expected = cluster.masters().iter().enumerate().map(|(number, master)| {
        format!("allot_seat_held_total{{server=\"redis://127.0.0.1:{}\"}} {}", master.port(), number.min(1))
    });
    let expected: Vec<String> = expected.collect();
    assert_eq!(held, expected.iter().map(String::as_str).collect());
}

#[test]
fn every_metric_of_an_alert_exists() {
    let server = RedisServer::start();
    let process = alone(&server, "scheduler", "scheduler", &[]);
    let shown = scrape(&process);
    let shown = shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let known: HashSet<&str> = METRICS.iter().map(|metric| metric.name).chain(shown).collect();
    let alerts = fs::read_to_string(repository().join("docs/alerts.yml")).unwrap();
    let is_part = |char: char| char.is_ascii_lowercase() || char == '_';
    let names = alerts.split(|char| !is_part(char)).filter(|word| word.starts_with("allot_"));
    let unknown: Vec<&str> =
        names.filter(|name| !known.contains(name.strip_suffix("_bucket").unwrap_or(name))).collect();
    assert_eq!(unknown, [""; 0], "docs/alerts.yml names metrics that do not exist");
}

#[test]
fn alert_rules_are_rules() {
    check("promtool", &["check", "rules", "docs/alerts.yml"]);
}
