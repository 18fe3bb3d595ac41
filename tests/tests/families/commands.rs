//! Every command has its documentation, arity, flags, key specifications and ACL rules.

use allot_tests::raw::RawClient;
use allot_tests::seat_workload::LONG_TTL_MS;
use allot_tests::shows::{THEATRE, create, hold, no_internal_errors};
use allot_tests::{RedisServer, Reply};

/// Every command with what `COMMAND INFO` must say of it: arity, and the flags that matter.
const COMMANDS: &[(&str, i64, &[&str])] = &[
    ("allot.check", 2, &["readonly"]),
    ("allot.clock", -2, &["write"]),
    ("seat.create", 3, &["write", "denyoom"]),
    ("seat.alter", 3, &["write", "denyoom"]),
    ("seat.hold", -6, &["write", "denyoom", "fast"]),
    ("seat.pick", -8, &["write", "denyoom", "fast"]),
    ("seat.extend", -5, &["write", "fast"]),
    ("seat.confirm", -3, &["write", "fast"]),
    ("seat.release", -3, &["write", "fast"]),
    ("seat.refund", -2, &["write"]),
    ("seat.move", -5, &["write", "denyoom"]),
    ("seat.transfer", -6, &["write", "denyoom"]),
    ("seat.order", 3, &["readonly", "fast"]),
    ("seat.block", -4, &["write", "denyoom"]),
    ("seat.blocks", 2, &["readonly"]),
    ("seat.unblock", -4, &["write"]),
    ("seat.wait", -8, &["write", "denyoom"]),
    ("seat.unwait", 3, &["write", "fast"]),
    ("seat.waiting", 3, &["readonly"]),
    ("seat.get", 3, &["readonly", "fast"]),
    ("seat.holds", 3, &["readonly", "fast"]),
    ("seat.find", -3, &["readonly"]),
    ("seat.list", -3, &["readonly"]),
    ("seat.stat", -2, &["readonly"]),
    ("seat.map", 3, &["readonly"]),
    ("seat.plan", 2, &["readonly"]),
    ("seat.zmpop", -4, &["write"]),
    ("seat.apply", 3, &["write"]),
    ("numpool.add", -3, &["write", "denyoom", "fast"]),
    ("numpool.del", -3, &["write", "fast"]),
    ("numpool.reg", -3, &["write", "fast"]),
    ("numpool.unreg", -3, &["write", "blocking"]),
    ("numpool.call", -2, &["write", "denyoom", "fast", "blocking"]),
    ("numpool.hangup", -3, &["write", "fast"]),
    ("numpool.renew", 7, &["write", "fast"]),
    ("numpool.beat", 5, &["write", "fast"]),
    ("numpool.switches", -2, &["readonly"]),
    ("numpool.suspend", -3, &["write", "denyoom", "fast"]),
    ("numpool.resume", -3, &["write", "fast"]),
    ("numpool.reconcile", -2, &["write", "blocking"]),
    ("numpool.leases", -2, &["readonly"]),
    ("numpool.get", 3, &["readonly", "fast"]),
    ("numpool.info", 2, &["readonly", "fast"]),
    ("numpool.scan", -3, &["readonly"]),
    ("numpool.config", -2, &["write", "denyoom"]),
    ("numpool.caps", -4, &["write", "denyoom", "fast"]),
    ("numpool.cause", -5, &["write", "denyoom"]),
    ("numpool.apply", 3, &["write"]),
    ("conf.realm", -2, &["write", "denyoom"]),
    ("conf.term", -4, &["write"]),
    ("conf.create", -3, &["write", "denyoom", "fast", "blocking"]),
    ("conf.ack", 5, &["write", "fast"]),
    ("conf.nack", -5, &["write", "fast"]),
    ("conf.failed", -5, &["write", "fast"]),
    ("conf.ended", -5, &["write", "fast"]),
    ("conf.release", 3, &["write", "fast"]),
    ("conf.extend", -5, &["write", "fast"]),
    ("conf.resize", 4, &["write", "fast"]),
    ("conf.alter", -3, &["write", "denyoom", "fast"]),
    ("conf.set", -8, &["write", "denyoom", "fast"]),
    ("conf.get", -3, &["readonly", "fast"]),
    ("conf.info", 3, &["readonly", "fast"]),
    ("conf.history", 3, &["readonly", "fast"]),
    ("conf.list", -2, &["readonly"]),
    ("conf.stat", 2, &["readonly"]),
    ("conf.recover", -2, &["write"]),
    ("conf.restart", -4, &["write"]),
    ("conf.rebalance", -2, &["write"]),
    ("conf.move", -3, &["write", "fast"]),
    ("conf.plan", -2, &["readonly"]),
    ("conf.apply", 3, &["write"]),
    ("account.book", -2, &["write", "denyoom"]),
    ("account.term", -4, &["write"]),
    ("account.module", -7, &["write", "denyoom"]),
    ("account.delmodule", -3, &["write"]),
    ("account.department", -5, &["write", "denyoom"]),
    ("account.tariff", -7, &["write", "denyoom"]),
    ("account.add", -8, &["write", "denyoom"]),
    ("account.del", -4, &["write"]),
    ("account.move", -5, &["write"]),
    ("account.freeze", -3, &["write"]),
    ("account.limit", -5, &["write", "denyoom"]),
    ("account.attach", -4, &["write", "denyoom"]),
    ("account.detach", -4, &["write"]),
    ("account.login", 7, &["write", "denyoom", "fast"]),
    ("account.renew", 6, &["write", "fast"]),
    ("account.logout", -4, &["write", "fast"]),
    ("account.use", -4, &["write", "fast"]),
    ("account.report", 5, &["write", "fast"]),
    ("account.raise", -3, &["write", "fast"]),
    ("account.pick", -4, &["write", "fast"]),
    ("account.rebalance", -2, &["write"]),
    ("account.info", -2, &["readonly"]),
    ("account.list", -2, &["readonly"]),
    ("account.usage", -2, &["readonly"]),
    ("account.history", 3, &["readonly"]),
    ("account.apply", 3, &["write"]),
    ("cmu.join", -5, &["write", "denyoom"]),
    ("cmu.beat", -3, &["write", "fast"]),
    ("cmu.report", -5, &["write"]),
    ("cmu.ask", -3, &["write"]),
    ("cmu.drain", -3, &["write"]),
    ("cmu.leave", 3, &["write"]),
    ("cmu.down", -3, &["write"]),
    ("cmu.list", 2, &["readonly"]),
];

#[test]
fn every_command_is_documented() {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.hello3();
    let list = client.words("COMMAND LIST FILTERBY MODULE allot");
    let mut listed: Vec<String> = list.array().iter().map(|name| name.text().to_lowercase()).collect();
    let mut expected: Vec<&str> = COMMANDS.iter().map(|(name, _, _)| *name).collect();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    for name in expected {
        let docs = client.words(&format!("COMMAND DOCS {name}"));
        let (key, docs) = docs.record().remove(0);
        assert_eq!(key.to_lowercase(), name);
        assert!(docs.field("summary").text().len() > 10, "{name}");
        assert!(docs.field("complexity").text().starts_with("O("), "{name}");
        assert_eq!(docs.field("since").text(), "0.1.0", "{name}");
        let arguments = docs.field("arguments").array().to_vec();
        let names: Vec<String> = arguments.iter().map(|argument| argument.field("name").text()).collect();
        assert_eq!(names[usize::from(name == "seat.zmpop")], "key", "{name}: {names:?}");
    }
    let docs = client.words("COMMAND DOCS SEAT.HOLD").record().remove(0).1;
    let tokens: Vec<String> = docs.field("arguments").array()[3..]
        .iter()
        .flat_map(|argument| argument.record())
        .filter_map(|(name, value)| (name == "token").then(|| value.text()))
        .collect();
    assert_eq!(
        tokens,
        [
            "TTL", "TIER", "AREAS", "ADJACENT", "ORPHANS", "FLAGS", "FROM", "TOKEN", "ADD", "ONCE",
            "EXCHANGE", "ALSO", "BESIDE"
        ]
    );
}

#[test]
fn flags_and_arities_are_those_that_clients_rely_on() {
    let server = RedisServer::start();
    let mut client = server.raw();
    for &(name, arity, flags) in COMMANDS {
        let info = client.words(&format!("COMMAND INFO {name}"));
        let info = info.array()[0].array();
        assert_eq!(info[1], Reply::Int(arity), "{name}");
        let said: Vec<String> = info[2].array().iter().map(Reply::text).collect();
        for flag in ["write", "readonly", "denyoom", "fast", "blocking"] {
            assert_eq!(
                said.iter().any(|said| said == flag),
                flags.contains(&flag),
                "{name}: {flag} in {said:?}"
            );
        }
        // Key specifications: where the key is, and what is done to it.
        let spec = &info[8].array()[0];
        let access: Vec<String> = spec.field("flags").array().iter().map(Reply::text).collect();
        let expected = if flags.contains(&"readonly") { "RO" } else { "RW" };
        assert!(access.iter().any(|flag| flag == expected), "{name}: {access:?}");
    }
}

#[test]
fn keys_are_found_in_every_command() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let list = |names: &[&str]| Reply::Array(names.iter().map(Reply::bulk).collect());
    for (line, keys) in [
        ("SEAT.CREATE k {}", &["k"][..]),
        ("SEAT.HOLD k u 1 TTL 5 REPLACE t OTHER", &["k"]),
        ("SEAT.PICK k u TTL 5 SEATS 1 s", &["k"]),
        ("SEAT.CONFIRM k t", &["k"]),
        ("SEAT.MOVE k 1 a b", &["k"]),
        ("SEAT.TRANSFER k u SEATS 1 a", &["k"]),
        ("SEAT.STAT k", &["k"]),
        ("SEAT.FIND k 2 BEST 3", &["k"]),
        ("SEAT.WAIT k u 2 TTL 5 OFFER 5 PRIORITY 3", &["k"]),
        ("SEAT.UNWAIT k t", &["k"]),
        ("SEAT.WAITING k t", &["k"]),
        ("SEAT.LIST k HOLDS CURSOR 4", &["k"]),
        ("SEAT.PLAN k", &["k"]),
        ("SEAT.ZMPOP 1 a MIN", &["a"]),
        ("SEAT.ZMPOP 3 a b c MAX COUNT 2 ADJACENT", &["a", "b", "c"]),
    ] {
        assert_eq!(client.words(&format!("COMMAND GETKEYS {line}")), list(keys), "{line}");
    }
    for bad in [
        "SEAT.ZMPOP 9 a MIN",
        "SEAT.ZMPOP x a MIN",
        "SEAT.ZMPOP 9223372036854775807 a MIN",
        "SEAT.ZMPOP -1 a MIN",
    ] {
        assert!(matches!(client.words(&format!("COMMAND GETKEYS {bad}")), Reply::Error(_)), "{bad}");
    }
    no_internal_errors(&server);
}

fn user(server: &RedisServer, name: &str) -> RawClient {
    let mut client = server.raw();
    assert_eq!(client.words(&format!("AUTH {name} secret")), Reply::Simple("OK".into()));
    client
}

#[test]
fn acl_rules_by_name_by_key_and_by_category_are_obeyed() {
    let server = RedisServer::start();
    create(&server, "show", THEATRE);
    create(&server, "other", THEATRE);
    let mut admin = server.raw();
    admin.words("ZADD mine 1 a");
    for rule in [
        "seller on >secret ~show -@all +seat.hold +seat.confirm +auth",
        "viewer on >secret %R~* -@all +seat.hold +seat.stat +seat.zmpop +auth",
    ] {
        assert_eq!(admin.words(&format!("ACL SETUSER {rule}")), Reply::Simple("OK".into()));
    }
    let mut seller = user(&server, "seller");
    hold(&mut seller, "show", "ann", 1, LONG_TTL_MS, "t");
    assert_eq!(seller.words("SEAT.CONFIRM show t"), Reply::Int(1));
    for line in ["SEAT.RELEASE show t", "SEAT.STAT show", "SEAT.HOLD other u 1 TTL 5"] {
        assert!(seller.words(line).error().starts_with("NOPERM "), "{line}");
    }
    let mut viewer = user(&server, "viewer");
    assert!(matches!(viewer.words("SEAT.STAT show"), Reply::Array(_)));
    for line in ["SEAT.HOLD show u 1 TTL 5", "SEAT.ZMPOP 1 mine MIN"] {
        assert!(viewer.words(line).error().starts_with("NOPERM "), "{line}");
    }
    let category = admin.words("ACL CAT read");
    if category.array().contains(&Reply::bulk("seat.stat")) {
        admin.words("ACL SETUSER reader on >secret ~* -@all +@read +auth");
        let mut reader = user(&server, "reader");
        assert!(matches!(reader.words("SEAT.STAT show"), Reply::Array(_)));
        assert!(reader.words("SEAT.HOLD show u 1 TTL 5").error().starts_with("NOPERM "));
    } else {
        eprintln!("this server has no ACL categories for commands of modules");
    }
}
