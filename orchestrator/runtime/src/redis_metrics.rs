//! `INFO allot` of the servers as text for Prometheus (docs/operate.md#metrics-of-the-module).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use allot_client::{Error, Servers, query};
use redis::cmd;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Time limit for an answer. Prometheus waits 10 s for all answers together.
const LIMIT: Duration = Duration::from_secs(3);

/// Type, meaning and samples of a metric.
type Metrics = BTreeMap<String, (&'static str, String, String)>;

/// The counters and gauges of the module at all masters, each with the label `server`. Of a server that does not answer
/// in time, there is only `allot_redis_up` with the value 0, and a comment with the reason.
pub(crate) async fn text(servers: &Servers) -> String {
    let (mut metrics, mut comments) = (Metrics::new(), String::new());
    let mut add = |server: &str, answer: Result<String, Error>| {
        add_server(&mut metrics, server, answer.as_deref().ok());
        if let Err(error) = answer {
            let _ = writeln!(comments, "# {server}: {}", error.to_string().replace('\n', " "));
        }
    };
    match within_limit(servers.masters()).await {
        Err(error) => add(&servers.to_string(), Err(error)),
        Ok(masters) => {
            let mut asked = JoinSet::new();
            for node in masters {
                let server = servers.at(node.clone());
                asked.spawn(async move { (node.to_string(), within_limit(info(&server)).await) });
            }
            asked.join_all().await.into_iter().for_each(|(server, answer)| add(&server, answer));
        }
    }
    metrics.iter().fold(comments, |mut text, (name, (kind, help, samples))| {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
        text
    })
}

async fn within_limit<T>(asking: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = |_| Err(Error::NoMaster(format!("no answer within {} s", LIMIT.as_secs())));
    timeout(LIMIT, asking).await.unwrap_or_else(late)
}

async fn info(server: &Servers) -> Result<String, Error> {
    let mut connection = server.connection(Duration::ZERO).await?;
    query(&mut connection, cmd("INFO").arg("allot")).await
}

/// Adds what a server has answered to `INFO allot`; `None` if it has not answered.
fn add_server(metrics: &mut Metrics, server: &str, info: Option<&str>) {
    let label = server.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let mut add = |name: String, kind, help: String, value: &str| {
        let (.., samples) = metrics.entry(name.clone()).or_insert_with(|| (kind, help, String::new()));
        let _ = writeln!(samples, "{name}{{server=\"{label}\"}} {value}");
    };
    let truth = |is: bool| if is { "1" } else { "0" };
    add("allot_redis_up".into(), "gauge", "1 if the server has answered".into(), truth(info.is_some()));
    let Some(info) = info else { return };
    let mut kind = "gauge";
    let mut is_loaded = false;
    for line in info.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix("# ") {
            kind = if section == "allot_stats" { "counter" } else { "gauge" };
            is_loaded = true;
        } else if let Some((field, value)) = line.split_once(':') {
            let suffix = if kind == "counter" { "_total" } else { "" };
            add(format!("{field}{suffix}"), kind, format!("{field} of INFO"), value);
        }
    }
    let help = "1 if the server has loaded the module";
    add("allot_redis_module_loaded".into(), "gauge", help.into(), truth(is_loaded));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_metric_stand_together_with_their_type() {
        let mut metrics = Metrics::new();
        let info = "# allot_stats\r\nallot_seat_held:3\r\n\r\n# allot_state\r\nallot_warnings:0\r\n";
        add_server(&mut metrics, "redis://a:1", Some(info));
        add_server(&mut metrics, "redis://b:2", Some(&info.replace('3', "4")));
        add_server(&mut metrics, "c \"d\"", None);
        add_server(&mut metrics, "redis://e:5", Some(""));
        let (kind, help, samples) = &metrics["allot_seat_held_total"];
        assert_eq!((*kind, help.as_str()), ("counter", "allot_seat_held of INFO"));
        let expected = "allot_seat_held_total{server=\"redis://a:1\"} 3\nallot_seat_held_total{server=\"redis://b:2\"} 4\n";
        assert_eq!(samples, expected);
        assert_eq!(metrics["allot_warnings"].0, "gauge");
        assert!(metrics["allot_redis_up"].2.contains("{server=\"c \\\"d\\\"\"} 0\n"), "{metrics:?}");
        let loaded = &metrics["allot_redis_module_loaded"].2;
        assert!(loaded.contains("e:5\"} 0\n") && loaded.contains("a:1\"} 1\n"), "{loaded}");
    }
}
