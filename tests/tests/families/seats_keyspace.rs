//! What Redis users expect of any command: documentation, key specifications, ACL rules, transactions, scripts,
//! `WATCH`, memory limits, notifications, read-only replicas.

use allot_tests::raw::RawClient;
use allot_tests::seat_workload::LONG_TTL_MS;
use allot_tests::shows::{THEATRE, create, hold, no_internal_errors, sample_venue, state_of};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// Every command with what `COMMAND INFO` must say of it: arity, and the flags that matter.
const COMMANDS: &[(&str, i64, &[&str])] = &[
    ("seat.create", 3, &["write", "denyoom"]),
    ("seat.alter", 3, &["write", "denyoom"]),
    ("seat.hold", -6, &["write", "denyoom", "fast"]),
    ("seat.pick", -8, &["write", "denyoom", "fast"]),
    ("seat.extend", 5, &["write", "fast"]),
    ("seat.confirm", -3, &["write", "fast"]),
    ("seat.release", -3, &["write", "fast"]),
    ("seat.refund", -4, &["write"]),
    ("seat.order", 3, &["readonly", "fast"]),
    ("seat.block", -4, &["write", "denyoom"]),
    ("seat.unblock", -4, &["write"]),
    ("seat.get", 3, &["readonly", "fast"]),
    ("seat.holds", 3, &["readonly", "fast"]),
    ("seat.stat", -2, &["readonly"]),
    ("seat.map", 3, &["readonly"]),
    ("seat.plan", 2, &["readonly"]),
    ("seat.zmpop", -4, &["write"]),
    ("seat.apply", 3, &["write"]),
    ("numpool.add", -3, &["write", "denyoom", "fast"]),
    ("numpool.del", -3, &["write", "fast"]),
    ("numpool.reg", -3, &["write", "fast"]),
    ("numpool.unreg", -3, &["write", "fast"]),
    ("numpool.call", -2, &["write", "denyoom", "fast"]),
    ("numpool.hangup", -3, &["write", "fast"]),
    ("numpool.renew", 7, &["write", "fast"]),
    ("numpool.reconcile", -4, &["write"]),
    ("numpool.leases", -2, &["readonly"]),
    ("numpool.get", 3, &["readonly", "fast"]),
    ("numpool.info", 2, &["readonly", "fast"]),
    ("numpool.scan", -3, &["readonly"]),
    ("numpool.config", -2, &["write", "denyoom"]),
    ("numpool.apply", 3, &["write"]),
    ("conf.realm", -2, &["write", "denyoom"]),
    ("conf.term", -4, &["write"]),
    ("conf.create", -3, &["write", "denyoom", "fast"]),
    ("conf.ack", 5, &["write", "fast"]),
    ("conf.nack", -5, &["write", "fast"]),
    ("conf.ended", 5, &["write", "fast"]),
    ("conf.release", 3, &["write", "fast"]),
    ("conf.extend", 5, &["write", "fast"]),
    ("conf.set", -8, &["write", "denyoom", "fast"]),
    ("conf.get", -3, &["readonly", "fast"]),
    ("conf.info", 3, &["readonly", "fast"]),
    ("conf.history", 3, &["readonly", "fast"]),
    ("conf.list", -2, &["readonly"]),
    ("conf.stat", 2, &["readonly"]),
    ("conf.recover", -2, &["write"]),
    ("conf.restart", -4, &["write"]),
    ("conf.move", -3, &["write", "fast"]),
    ("conf.plan", -2, &["readonly"]),
    ("conf.apply", 3, &["write"]),
    ("account.book", -2, &["write", "denyoom"]),
    ("account.term", -4, &["write"]),
    ("account.module", -7, &["write", "denyoom"]),
    ("account.add", -8, &["write", "denyoom"]),
    ("account.del", -4, &["write"]),
    ("account.move", -5, &["write"]),
    ("account.freeze", -3, &["write"]),
    ("account.attach", -4, &["write", "denyoom"]),
    ("account.detach", -4, &["write"]),
    ("account.login", 7, &["write", "denyoom", "fast"]),
    ("account.renew", 6, &["write", "fast"]),
    ("account.logout", -4, &["write", "fast"]),
    ("account.use", -4, &["write", "fast"]),
    ("account.pick", -4, &["readonly", "fast"]),
    ("account.rebalance", -2, &["write"]),
    ("account.info", -2, &["readonly"]),
    ("account.list", -2, &["readonly"]),
    ("account.usage", -2, &["readonly"]),
    ("account.history", 3, &["readonly"]),
    ("account.apply", 3, &["write"]),
    ("cmu.join", -5, &["write"]),
    ("cmu.beat", -3, &["write", "fast"]),
    ("cmu.report", -5, &["write"]),
    ("cmu.ask", -3, &["write"]),
    ("cmu.drain", -3, &["write"]),
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
    assert_eq!(tokens, ["TTL", "TIER", "AREAS", "ADJACENT", "ORPHANS", "FLAGS", "TOKEN"]);
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
        for flag in ["write", "readonly", "denyoom", "fast"] {
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
        ("SEAT.STAT k", &["k"]),
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

#[test]
fn transactions_scripts_and_functions_can_do_all_that_clients_can() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&server);
    create(&server, "show", &sample_venue(4, 10));
    let mut client = server.raw();
    for line in [
        "MULTI",
        "SEAT.HOLD show ann 2 TTL 60000 TOKEN t",
        "SEAT.GET show a-1-1",
        "SEAT.CONFIRM show t",
        "SEAT.CONFIRM show none",
    ] {
        client.words(line);
    }
    let replies = client.words("EXEC");
    let replies = replies.array();
    assert_eq!(replies[0].field("token"), Reply::bulk("t"));
    assert_eq!(replies[1].field("state"), Reply::bulk("held"));
    assert_eq!(replies[2], Reply::Int(2));
    assert!(replies[3].error().starts_with("NOTFOUND "));

    let script = "local h = redis.call('SEAT.HOLD', KEYS[1], 'bob', 3, 'TTL', 60000)
        local null = redis.call('SEAT.HOLD', KEYS[1], 'bob', 99, 'TTL', 60000)
        local refused = redis.pcall('SEAT.CONFIRM', KEYS[1], 'none')
        return {redis.call('SEAT.CONFIRM', KEYS[1], h[2]), null == false, refused.err}";
    let reply = client.call(&["EVAL", script, "1", "show"]);
    assert_eq!(reply.array()[..2], [Reply::Int(3), Reply::Int(1)]);
    assert!(reply.array()[2].text().starts_with("NOTFOUND "), "{reply:?}");
    let read = "return redis.call('SEAT.HOLD', KEYS[1], 'u', 1, 'TTL', 5)";
    assert!(client.call(&["EVAL_RO", read, "1", "show"]).error().contains("Write commands are not allowed"));
    let library = "#!lua name=l
        redis.register_function('buy', function(keys, args)
          local h = redis.call('SEAT.HOLD', keys[1], args[1], args[2], 'TTL', 60000)
          return redis.call('SEAT.CONFIRM', keys[1], h[2], 'ORDER', args[1])
        end)
        redis.register_function{function_name='see', flags={'no-writes'}, callback=function(keys)
          redis.setresp(3)
          return redis.call('SEAT.STAT', keys[1])[1].map.sold
        end}";
    client.call(&["FUNCTION", "LOAD", library]);
    assert_eq!(client.words("FCALL buy 1 show cid 4"), Reply::Int(4));
    assert_eq!(client.words("FCALL_RO see 1 show"), Reply::Int(9));
    server.wait_offset_equal(&replica);
    assert_eq!(server.digest(), replica.digest());
    no_internal_errors(&server);
}

#[test]
fn watch_is_broken_by_a_change_and_by_nothing_else() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(2, 5));
    let (mut watcher, mut other) = (server.raw(), server.raw());
    hold(&mut other, "show", "ann", 1, LONG_TTL_MS, "t");
    hold(&mut other, "show", "ann", 1, LONG_TTL_MS, "short");
    let mut broken_by = |line: &str| {
        watcher.words("WATCH show");
        other.words(line);
        watcher.words("MULTI");
        watcher.words("SEAT.STAT show");
        watcher.words("EXEC").is_null()
    };
    for line in [
        "SEAT.HOLD show bob 50 TTL 1000",
        "SEAT.HOLD show bob 1 TTL 1000 TIER x",
        "SEAT.HOLD show ann 1 TTL 3600000 TOKEN t",
        "SEAT.PICK show bob TTL 1000 SEATS 1 a-1-1",
        "SEAT.CONFIRM show none",
        "SEAT.RELEASE show none",
        "SEAT.REFUND show 1 a-2-5",
        "SEAT.ALTER show {}",
        "SEAT.GET show a-1-1",
        "SEAT.PLAN show",
    ] {
        assert!(!broken_by(line), "{line} changed nothing");
    }
    for line in [
        "SEAT.HOLD show bob 1 TTL 3600000 TOKEN u",
        "SEAT.EXTEND show u TTL 3600000",
        "SEAT.CONFIRM show u",
        "SEAT.BLOCK show 1 a-2-5",
        "SEAT.RELEASE show t",
        r#"SEAT.ALTER show {"limits":{"seats_per_user":9}}"#,
    ] {
        assert!(broken_by(line), "{line} changed the show");
    }
    // An expiry is a change, too.
    let (mut watcher, mut other) = (server.raw(), server.raw());
    // Long enough to be watched before it expires.
    other.words("SEAT.EXTEND show short TTL 4000");
    watcher.words("WATCH show");
    eventually("the hold to expire", TIMEOUT, || {
        other.words("SEAT.STAT show").array()[0].field("held") == Reply::Int(0)
    });
    watcher.words("MULTI");
    assert!(watcher.words("EXEC").is_null());
}

#[test]
fn where_memory_is_full_nothing_new_is_held_but_all_that_frees_and_sells_goes_on() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue(4, 10));
    let mut client = server.raw();
    for token in ["a", "b", "c", "d"] {
        hold(&mut client, "show", "ann", 2, LONG_TTL_MS, token);
    }
    hold(&mut client, "show", "ann", 1, 1000, "short");
    client.words("SEAT.CONFIRM show d ORDER o");
    client.words("SEAT.BLOCK show 1 a-4-10");
    client.words("ZADD set 1 a 2 b");
    let sold = client.words("SEAT.ORDER show o").array()[0].text();
    client.words("CONFIG SET maxmemory 1");
    for line in [
        "SEAT.HOLD show bob 1 TTL 5",
        "SEAT.PICK show bob TTL 5 SEATS 1 a-4-1",
        "SEAT.BLOCK show 1 a-4-1",
        "SEAT.CREATE new {}",
        "SEAT.ALTER show {}",
    ] {
        assert!(client.words(line).error().starts_with("OOM "), "{line}");
    }
    assert!(matches!(client.words("SEAT.EXTEND show a TTL 60000"), Reply::Int(_)));
    for (line, count) in [
        ("SEAT.CONFIRM show a ORDER p", 2),
        ("SEAT.RELEASE show b", 2),
        ("SEAT.CONFIRM show c", 2),
        (&format!("SEAT.REFUND show ORDER o 1 {sold}"), 1),
        ("SEAT.UNBLOCK show 1 a-4-10", 1),
    ] {
        assert_eq!(client.words(line), Reply::Int(count), "{line}");
    }
    assert_eq!(client.words("SEAT.ZMPOP 1 set MIN ADJACENT COUNT 2").array()[0], Reply::bulk("set"));
    assert!(matches!(client.words("SEAT.STAT show"), Reply::Array(_)));
    eventually("the short hold to expire", TIMEOUT, || {
        client.words("SEAT.STAT show").array()[0].field("held") == Reply::Int(0)
    });
    no_internal_errors(&server);
}

#[test]
fn a_read_only_replica_answers_reads_and_refuses_the_rest() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    create(&server, "show", THEATRE);
    replica.replica_of(&server);
    hold(&mut server.raw(), "show", "ann", 2, LONG_TTL_MS, "t");
    hold(&mut server.raw(), "show", "bob", 2, LONG_TTL_MS, "sold");
    assert_eq!(server.raw().words("SEAT.CONFIRM show sold ORDER o"), Reply::Int(2));
    server.wait_offset_equal(&replica);
    let (mut there, mut here) = (server.raw(), replica.raw());
    for line in [
        "SEAT.GET show left-A-6",
        "SEAT.HOLDS show ann",
        "SEAT.STAT show",
        "SEAT.MAP show left",
        "SEAT.PLAN show",
        "SEAT.ORDER show o",
    ] {
        let (expected, reply) = (there.words(line), here.words(line));
        assert_eq!(reply, expected, "{line}");
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
    for line in [
        "SEAT.HOLD show bob 1 TTL 1000",
        "SEAT.RELEASE show t",
        "SEAT.BLOCK show 1 left-A-1",
        "SEAT.ZMPOP 1 z MIN",
    ] {
        assert!(here.words(line).error().starts_with("READONLY "), "{line}");
    }
}

#[test]
fn every_event_is_a_keyspace_notification() {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.words("CONFIG SET notify-keyspace-events Ed");
    let mut listener = server.raw();
    listener.words("PSUBSCRIBE __keyevent@0__:*");
    create(&server, "show", &sample_venue(2, 5));
    for line in [
        r#"SEAT.ALTER show {"events":0,"limits":{"seats_per_user":7}}"#,
        "SEAT.HOLD show ann 2 TTL 60000 TOKEN t",
        "SEAT.HOLD show ann 2 TTL 60000 TOKEN t",
        "SEAT.EXTEND show t TTL 60000",
        "SEAT.CONFIRM show t",
        "SEAT.CONFIRM show t",
        "SEAT.REFUND show 1 a-1-1",
        "SEAT.PICK show ann TTL 60000 TOKEN u SEATS 1 a-2-1",
        "SEAT.RELEASE show u",
        "SEAT.BLOCK show 1 a-2-2",
        "SEAT.UNBLOCK show 1 a-2-2",
        "SEAT.HOLD show ann 1 TTL 20 TOKEN v",
    ] {
        client.words(line);
    }
    for event in [
        "created",
        "altered",
        "held",
        "extended",
        "confirmed",
        "refunded",
        "held",
        "released",
        "blocked",
        "unblocked",
        "held",
        "expired",
    ] {
        let message = listener.read();
        assert_eq!(message.array()[2].text(), format!("__keyevent@0__:allot.seat.{event}"));
        assert_eq!(message.array()[3], Reply::bulk("show"));
    }
    assert_eq!(state_of(&mut client, "show", "a-2-2"), "free");
}
