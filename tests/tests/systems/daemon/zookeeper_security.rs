//! TLS and SASL between `allotd` and Debian's ZooKeeper server.

use std::fs;
use std::path::Path;

use allot_tests::daemon::{command, run_daemon};
use allot_tests::launch::free_port;
use allot_tests::wait::TIMEOUT;
use allot_tests::{Certificates, Process, RedisServer, ZooKeeperServer, eventually};

/// A server that accepts only connections by TLS with a certificate of the CA on its second port.
fn server_with_tls(certificates: &Certificates) -> (ZooKeeperServer, String) {
    let file = |name: &str| fs::read_to_string(certificates.file(name)).unwrap();
    let store = certificates.file("store.pem");
    fs::write(&store, format!("{}{}", file("leaf.key"), file("leaf.pem"))).unwrap();
    let port = free_port();
    let lines = format!(
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nsecureClientPort={port}\n\
         secureClientPortAddress=127.0.0.1\nssl.keyStore.location={store}\nssl.trustStore.location={}\n\
         ssl.clientAuth=need\n",
        certificates.file("ca.pem")
    );
    (ZooKeeperServer::start_with(&lines, &[]), format!("localhost:{port}"))
}

/// A scheduler with these arguments, started.
fn scheduler(server: &RedisServer, zookeeper: &str, arguments: &[&str], password: Option<&str>) -> Process {
    let url = server.url();
    let stores = ["--roles", "scheduler", "--redis-url", &url, "--zookeeper-servers", zookeeper];
    let mut process = Process::new("scheduler", &[&stores, arguments].concat());
    if let Some(password) = password {
        process = process.with("ALLOT_ZOOKEEPER_PASSWORD", password);
    }
    process.start();
    process
}

#[track_caller]
fn leads(process: &Process) {
    eventually("the scheduler to lead", TIMEOUT, || {
        process.is_ready() && process.metric("allot_scheduler_leading") == Some(1.0)
    });
}

#[track_caller]
fn is_refused(process: &Process, text: &str) {
    eventually(&format!("the probe to say '{text}'"), TIMEOUT, || {
        process.http("/readyz").is_some_and(|(status, body)| status == 503 && body.contains(text))
    });
}

#[test]
fn scheduler_leads_over_tls_with_a_certificate_of_its_own() {
    let (server, certificates) = (RedisServer::start(), Certificates::new());
    let (_zookeeper, address) = server_with_tls(&certificates);
    let [ca, cert, key] = ["ca.pem", "leaf.pem", "leaf.key"].map(|name| certificates.file(name));
    let trust = ["--zookeeper-ca-file", &ca];
    let identity = ["--zookeeper-cert-file", &cert, "--zookeeper-key-file", &key];
    leads(&scheduler(&server, &address, &[&trust[..], &identity].concat(), None));
    // The command line goes the same way.
    let list = |settings: &[(&str, &str)]| {
        let mut command = command(&server, &["node", "list", "--zookeeper", &address, "--limit-time", "5s"]);
        let output = command.envs(settings.iter().copied()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let own = [("ALLOT_ZOOKEEPER_CERT_FILE", &cert[..]), ("ALLOT_ZOOKEEPER_KEY_FILE", &key)];
    let by_tls = [&[("ALLOT_ZOOKEEPER_CA_FILE", &ca[..])], &own[..]].concat();
    assert_eq!(list(&by_tls).0, Some(1), "there are no nodes: {}", list(&by_tls).1);
    assert_eq!(list(&[]).0, Some(6), "{}", list(&[]).1);
    let (code, error) = list(&own);
    assert!(code == Some(3) && error.contains("without ca-file"), "{error}");
    // The server asks for a certificate, and the client asks for one of its CA.
    is_refused(&scheduler(&server, &address, &trust, None), "no session by TLS");
    let others = Certificates::new();
    let foreign = ["--zookeeper-ca-file", &others.file("ca.pem")];
    is_refused(&scheduler(&server, &address, &[&foreign[..], &identity].concat(), None), "no session by TLS");
    // A client without TLS at a port with TLS.
    is_refused(&scheduler(&server, &address, &[], None), "expects TLS (zookeeper.ca-file)");
}

#[test]
fn settings_of_tls_that_cannot_work_are_refused_at_once() {
    let (server, certificates) = (RedisServer::start(), Certificates::new());
    let [ca, cert, key] = ["ca.pem", "leaf.pem", "leaf.key"].map(|name| certificates.file(name));
    let refused = |servers: &str, arguments: &[&str]| {
        let all = [&["run", "--roles", "scheduler", "--zookeeper-servers", servers], arguments].concat();
        run_daemon(&server, &all).ended(3).err
    };
    let err = refused("127.0.0.1:2281", &["--zookeeper-ca-file", &ca]);
    assert!(err.contains("write the name of the server 127.0.0.1"), "{err}");
    let err = refused("localhost", &["--zookeeper-ca-file", &key]);
    assert!(err.contains("no valid tls trust anchor"), "{err}");
    let err = refused("localhost", &["--zookeeper-ca-file", &ca, "--zookeeper-cert-file", &cert]);
    assert!(err.contains("belong together"), "{err}");
    let err = refused("localhost", &["--zookeeper-cert-file", &cert, "--zookeeper-key-file", &key]);
    assert!(err.contains("zookeeper: cert-file is given without ca-file"), "{err}");
    let err = refused("tcp+tls://localhost:2281", &[]);
    assert!(err.contains("zookeeper.servers") && err.contains("zookeeper.ca-file"), "{err}");
    let err = refused("localhost", &["--zookeeper-sasl"]);
    assert!(err.contains("without zookeeper.user"), "{err}");
}

#[test]
fn scheduler_leads_with_sasl_where_the_server_requires_it() {
    let server = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let jaas = dir.path().join("jaas.conf");
    let login = "org.apache.zookeeper.server.auth.DigestLoginModule";
    fs::write(&jaas, format!("Server {{ {login} required user_allot=\"a-secret\"; }};\n")).unwrap();
    let zookeeper = start_with_sasl(&jaas);
    let (address, user) = (zookeeper.address(), ["--zookeeper-user", "allot"]);
    let sasl = [&user[..], &["--zookeeper-sasl"]].concat();
    let process = scheduler(&server, &address, &sasl, Some("a-secret"));
    leads(&process);
    assert!(!process.log().contains("a-secret"));
    let by_sasl = [
        ("ALLOT_ZOOKEEPER_USER", "allot"),
        ("ALLOT_ZOOKEEPER_PASSWORD", "a-secret"),
        ("ALLOT_ZOOKEEPER_SASL", "true"),
    ];
    let listed = command(&server, &["node", "list", "--zookeeper", &address]).envs(by_sasl).output().unwrap();
    assert_eq!(listed.status.code(), Some(1), "{}", String::from_utf8_lossy(&listed.stderr));
    is_refused(&scheduler(&server, &address, &sasl, Some("wrong")), "check zookeeper.user and its password");
    is_refused(&scheduler(&server, &address, &user, Some("a-secret")), "set zookeeper.sasl");
    is_refused(&scheduler(&server, &address, &[], None), "set zookeeper.user, and zookeeper.sasl");
}

fn start_with_sasl(jaas: &Path) -> ZooKeeperServer {
    let lines = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
                 sessionRequireClientSASLAuth=true\n";
    let argument = format!("-Djava.security.auth.login.config={}", jaas.display());
    ZooKeeperServer::start_with(lines, &[argument])
}
