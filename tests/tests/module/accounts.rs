//! Accounts on a real server: what is replied, who is told, what many terminals at once may do, and how long the server is
//! held when hundreds of thousands of accounts are assigned.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use allot_tests::books::Book;
use allot_tests::shows::{allot_info, clock, no_internal_errors};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Random, RedisServer, Reply, eventually};

/// What is to happen by itself happens so many milliseconds later: after the commands that come first, on a machine
/// that is busy with other things.
const LATER: i64 = 4000;

#[test]
fn instances_come_and_go_and_every_account_is_in_one_place() {
    let server = RedisServer::start();
    let mut book = Book::create(&server, 2);
    book.add("m", 0..10);
    let record = book.ok("ATTACH m a");
    assert_eq!((record.field("state").text(), record.field("accounts").array().len()), ("active".into(), 10));
    let assignment = record.field("accounts").array()[0].array().to_vec();
    assert_eq!(
        book.account(&assignment[0].text(), "epoch"),
        assignment[1],
        "names and epochs of the assignment"
    );
    assert_eq!(book.ok("ATTACH m b").field("accounts").array().len(), 5);
    assert_eq!(book.ok("ATTACH m c").field("state").text(), "standby");
    assert_eq!(book.shares("m"), [5, 5, 0]);
    book.ok(&format!("DETACH m a GRACE {LATER}"));
    assert_eq!(book.shares("m"), [5, 5, 0], "they wait for it");
    // Nobody calls: the timer does it.
    eventually("the place to fall to the one that stands by", TIMEOUT, || book.shares("m") == [5, 5]);
    let history = book.ok("HISTORY p0");
    assert!(history.array().len() >= 2, "{history:?}");
    no_internal_errors(&server);
}

#[test]
fn a_revoked_account_goes_on_when_its_login_is_over() {
    let server = RedisServer::start();
    let mut book = Book::create(&server, 2);
    book.add("m", 0..1);
    book.ok("ATTACH m a");
    let login = book.ok(&format!("LOGIN p0 a t TTL {LATER}"));
    let (epoch, until) = (login.field("epoch").int(), login.field("until").int());
    book.ok("MODULE n DEPARTMENT d INSTANCES 1 SHARE PRESENT");
    book.ok("ATTACH n x");
    assert_eq!(book.ok("MOVE n 1 p0"), Reply::Int(1));
    assert_eq!(book.account("p0", "state").text(), "revoking");
    assert_eq!(book.code(&format!("RENEW p0 {epoch} TTL 1000")), "BADSTATE");
    assert_eq!(book.code("LOGIN p0 x t TTL 1000"), "BADSTATE");
    eventually("the login to be over", TIMEOUT, || book.account("p0", "instance") == Reply::bulk("x"));
    assert!(clock(&mut book.client) >= until, "it went on before its deadline");
    assert_eq!(allot_info(&server, "account_lapsed"), 1);
    assert_eq!(book.code(&format!("USE p0 {epoch}")), "STALE");
    no_internal_errors(&server);
}

#[test]
fn an_account_is_given_back_by_its_deal_in_one_step() {
    let server = RedisServer::start();
    let mut book = Book::create(&server, 2);
    book.add("m", 0..2);
    book.ok("ATTACH m a");
    book.ok("ATTACH m b");
    let holder = book.account("p0", "instance");
    let assignment = book.account("p0", "epoch").int();
    book.ok(&format!("LOGIN p0 {} t TTL 3600000", holder.text()));
    assert_eq!(book.ok(&format!("LOGOUT p0 {} BACK", assignment - 1)), Reply::Int(0));
    assert_eq!(book.ok(&format!("LOGOUT p0 {assignment} BACK")), Reply::Int(1));
    // It is assigned again by the same command.
    assert_eq!((book.account("p0", "state").text(), book.shares("m")), ("assigned".into(), vec![1, 1]));
    assert!(book.account("p0", "epoch").int() > assignment);
    assert_eq!((book.total("logins"), book.ok(&format!("LOGOUT p0 {assignment} BACK"))), (0, Reply::Int(0)));
    no_internal_errors(&server);
}

#[test]
fn no_two_terminals_ever_work_with_one_account_at_once() {
    let server = RedisServer::start();
    Book::create(&server, 3).add("m", 0..6);
    // The witness of what the platform would see: who is logged in, by a lock that is not ours.
    let locks: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let terminals: Vec<_> = (0..6)
        .map(|terminal| {
            let (mut book, locks) = (Book::of(&server), Arc::clone(&locks));
            std::thread::spawn(move || {
                let mut random = Random::new(terminal as u64);
                let mut logins = 0;
                for _ in 0..400 {
                    let instance = *random.of(&["a", "b", "c"]);
                    match random.below(12) {
                        0 => drop(book.call(&format!("DETACH m {instance}"))),
                        1 | 2 => drop(book.call(&format!("ATTACH m {instance}"))),
                        _ => {
                            let Reply::Array(picked) = book.call(&format!("PICK m {instance}")) else {
                                continue;
                            };
                            let account = picked[0].field("account").text();
                            let line = format!("LOGIN {account} {instance} t{terminal} TTL 3600000");
                            let login = book.call(&line);
                            if matches!(login, Reply::Error(_)) {
                                continue;
                            }
                            logins += 1;
                            let before = locks.lock().unwrap().insert(account.clone(), terminal);
                            assert_eq!(before, None, "{account} is logged in at {before:?} as well");
                            book.call(&format!("USE {account} {}", login.field("epoch").int()));
                            assert_eq!(locks.lock().unwrap().remove(&account), Some(terminal));
                            let epoch = login.field("epoch").int();
                            assert_eq!(book.ok(&format!("LOGOUT {account} {epoch}")), Reply::Int(1));
                        }
                    }
                }
                logins
            })
        })
        .collect();
    let logins: usize = terminals.into_iter().map(|terminal| terminal.join().unwrap()).sum();
    assert!(logins > 100, "{logins} logins");
    let mut book = Book::of(&server);
    let used: i64 = (0..6).map(|number| book.account(&format!("p{number}"), "used").int()).sum();
    assert_eq!(used, logins as i64, "each login was used once");
    no_internal_errors(&server);
}

#[test]
fn hundreds_of_thousands_of_accounts_are_assigned_in_short_steps() {
    let server = RedisServer::start();
    let mut book = Book::create(&server, 1000);
    for batch in 0..50 {
        book.add("m", batch * 4000..(batch + 1) * 4000);
    }
    // From one instance, which has them all, to a hundred.
    book.ok("ATTACH m i0");
    eventually("the first to have all", TIMEOUT, || book.shares("m") == [200_000]);
    let (mut worst, stop) = (Duration::ZERO, Instant::now() + TIMEOUT);
    for instance in 1..100 {
        book.ok(&format!("ATTACH m i{instance}"));
    }
    let mut watcher = server.raw();
    loop {
        let asked = Instant::now();
        watcher.words("PING");
        worst = worst.max(asked.elapsed());
        if book.shares("m").iter().all(|&share| share == 2000) {
            break;
        }
        assert!(Instant::now() < stop, "the assignment does not end");
    }
    println!("the longest wait of another client while 198,000 accounts moved: {worst:?}");
    // Detaching the last one takes 2,000 back, and nobody else's move.
    book.ok("DETACH m i99");
    eventually("its accounts to be with the others", TIMEOUT, || {
        let shares = book.shares("m");
        shares.len() == 99 && shares.iter().sum::<i64>() == 200_000
    });
    let shares = book.shares("m");
    assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
    no_internal_errors(&server);
}

#[test]
fn commands_that_use_accounts_assign_none() {
    let server = RedisServer::start();
    let mut book = Book::create(&server, 2);
    for batch in 0..5 {
        book.add("m", batch * 4000..(batch + 1) * 4000);
    }
    book.ok("ATTACH m a");
    eventually("the first to have all", TIMEOUT, || book.shares("m") == [20_000]);
    let account = book.ok("PICK m a").array()[0].field("account").text();
    // Nobody comes between the commands of a transaction, nor does the timer.
    book.client.words("MULTI");
    book.call("ATTACH m b");
    for _ in 0..50 {
        book.call(&format!("LOGIN {account} a t TTL 600000"));
        book.call(&format!("USE {account} 1"));
        book.call(&format!("RENEW {account} 1 TTL 600000"));
        book.call(&format!("LOGOUT {account} 1"));
    }
    book.call("INFO MODULE m");
    let replies = book.client.words("EXEC");
    let attached = replies.array().last().unwrap().field("attached");
    let shares: Vec<i64> = attached.array().iter().map(|one| one.field("assigned").int()).collect();
    assert_eq!(shares, [20_000 - 256, 256], "a step of who came");
    eventually("the timer to do the rest", TIMEOUT, || book.shares("m") == [10_000, 10_000]);
    no_internal_errors(&server);
}

#[test]
fn each_of_a_thousand_attaching_instances_assigns_a_bounded_number_of_accounts() {
    /// A step.
    const BOUND: i64 = 256;
    let server = RedisServer::start();
    let mut book = Book::create(&server, 1000);
    for batch in 0..30 {
        book.add("m", batch * 4000..(batch + 1) * 4000);
    }
    // Nobody comes between the commands of a transaction, nor does the timer.
    book.client.words("MULTI");
    for instance in 0..1000 {
        book.call(&format!("ATTACH m i{instance}"));
        book.client.words("INFO allot");
    }
    let replies = book.client.words("EXEC");
    let (mut before, mut most) = (0, 0);
    for pair in replies.array().chunks(2) {
        assert_eq!(pair[0].field("state").text(), "active");
        let info = pair[1].text();
        let assigned = info.lines().find_map(|line| line.strip_prefix("allot_account_assigned:")).unwrap();
        let assigned = assigned.parse::<i64>().unwrap();
        most = most.max(assigned - before);
        before = assigned;
    }
    assert_eq!(most, BOUND);
    eventually("the timer to do the rest", TIMEOUT, || book.shares("m") == vec![120; 1000]);
    no_internal_errors(&server);
}

#[test]
fn use_costs_by_steps_and_months_turn_by_themselves() {
    let server = RedisServer::start();
    let mut book = Book::create(&server, 1);
    book.add("m", 0..1);
    book.ok("ATTACH m a");
    let epoch = book.ok("LOGIN p0 a t TTL 3600000").field("epoch").int();
    book.ok("BOOK CAP 160");
    let used = book.ok(&format!("USE p0 {epoch} COUNT 155"));
    let fields: Vec<String> = used.record().into_iter().map(|(name, _)| name).collect();
    assert_eq!(fields, ["used", "left", "step", "cost"]);
    assert_eq!((used.field("step").int(), used.field("cost").text()), (2, "7.5".into()));
    assert_eq!(book.code(&format!("USE p0 {epoch} COUNT 6")), "LIMIT");
    assert_eq!(allot_info(&server, "account_capped"), 1);
    let turn = clock(&mut book.client) + LATER;
    book.ok(&format!("BOOK TURNS {turn}"));
    eventually("the month to turn", TIMEOUT, || book.total("month") == 1);
    assert_eq!(book.ok("INFO").field("month_start").int(), turn);
    assert_eq!(book.account("p0", "used").int(), 0);
    let usage = |book: &mut Book, ago: usize| {
        let rows = book.ok(&format!("USAGE BY module AGO {ago}"));
        let row = rows.array()[1].array()[0].clone();
        (row.field("used").int(), row.field("cost").text())
    };
    assert_eq!((usage(&mut book, 0), usage(&mut book, 1)), ((0, "0".into()), (155, "7.5".into())));
    let past = book.ok("USAGE BY account AGO 1").array()[1].array()[0].clone();
    assert_eq!((past.field("used").int(), past.field("left").int()), (155, 0));
    assert_eq!(past.field("cost").text(), "7.5");
    let whole = book.ok("USAGE BY book AGO 1").array()[1].array().to_vec();
    assert_eq!(whole.len(), 1);
    assert_eq!((whole[0].field("name").text(), whole[0].field("used").int()), ("book".into(), 155));
    assert_eq!(whole[0].field("cost").text(), "7.5");
    assert_eq!(book.code("USAGE AGO 2"), "NOTFOUND");
    assert_eq!(book.code(&format!("USE p0 {epoch} COUNT 6")), "OK", "the login outlives the month");
    no_internal_errors(&server);
}

#[test]
fn account_that_a_pick_moves_is_counted() {
    let server = RedisServer::start();
    let mut book = Book::create(&server, 1);
    book.ok("MODULE m DEPARTMENT d INSTANCES 1 RESERVE 1");
    book.add("m", 0..2);
    book.ok("ATTACH m a");
    eventually("the instance to have its account", TIMEOUT, || book.shares("m") == [1]);
    let asked = || allot_info(&server, "account_asked");
    let first = book.ok("PICK m a").array()[0].field("account").text();
    assert_eq!(asked(), 0);
    book.ok(&format!("LOGIN {first} a t TTL 1000000"));
    let second = book.ok("PICK m a").array()[0].field("account").text();
    assert_ne!(first, second, "from the reserve");
    assert_eq!((asked(), book.shares("m")), (1, vec![2]));
    book.ok(&format!("LOGIN {second} a t TTL 1000000"));
    assert!(book.ok("PICK m a").is_null());
    assert_eq!(asked(), 1);
}

#[test]
fn records_have_all_their_fields_in_both_protocols() {
    let server = RedisServer::start();
    let mut book = Book::create(&server, 1);
    book.add("m", 0..2);
    book.ok("ATTACH m a");
    let names =
        |reply: &Reply| reply.record().into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
    let account = "account module instance state epoch since terminal login_epoch until quota used left step cost tiers cap frozen_until turn since_turn projected projected_cost";
    for protocol in 2..=3 {
        if protocol == 3 {
            book.client.hello3();
        }
        assert_eq!(names(&book.ok("INFO p0")), account);
        assert_eq!(names(&book.ok("LIST").array()[1].array()[0]), account);
        assert_eq!(
            names(&book.ok("INFO")),
            "cap dwell maxmoves term leader last_epoch month month_start month_end modules instances accounts free \
             assigned revoking frozen logins margin lendlevel events calendar turns"
        );
        let module = book.ok("INFO m");
        assert_eq!(
            names(&module),
            "module department instances weight reserve accounts free active min share lend cap need attached projected projected_cost"
        );
        assert_eq!(names(&module.field("attached").array()[0]), "instance state assigned revoking target");
        assert_eq!(names(&book.ok("ATTACH m a")), "module instance state since away_until accounts");
        assert_eq!(names(&book.ok("PICK m a").array()[0]), "account epoch used left");
        assert_eq!(names(&book.ok("LOGIN p0 a t TTL 1000000")), "account epoch until");
        assert_eq!(names(&book.ok("HISTORY p0").array()[0]), "epoch module instance from to");
        let usage = "name accounts quota used left cost projected projected_cost";
        assert_eq!(names(&book.ok("USAGE").array()[1].array()[0]), usage);
        assert_eq!(names(&book.ok("USAGE BY account").array()[1].array()[0]), usage);
    }
    let cursor = book.ok("LIST COUNT 1").array()[0].int();
    let rest = book.ok(&format!("LIST CURSOR {cursor}"));
    assert_eq!((rest.array()[0].int(), rest.array()[1].array().len()), (0, 1));
}

#[test]
fn wrong_calls_are_refused_with_the_word_that_is_wrong() {
    let server = RedisServer::start();
    let mut book = Book::create(&server, 1);
    book.add("m", 0..2);
    for (line, text) in [
        ("MODULE m DEPARTMENT d", "wrong number of arguments"),
        ("MODULE m DEPARTMENT d WEIGHT 1", "INSTANCES must be given"),
        ("MODULE m DEPARTMENT d INSTANCES -1", "ERR INSTANCES must be 0 to"),
        ("ADD m QUOTA 1 TIERS 1 5 0.0000000001 ACCOUNTS 1 x", "'0.0000000001'"),
        ("ADD m QUOTA 10 TIERS 1 5 1 ACCOUNTS 1 x", "beyond the quota"),
        ("ADD m QUOTA 10 ACCOUNTS 2 x p1", "EXISTS account 'p1' is there already"),
        ("ADD m QUOTA 10 ACCOUNTS 2 x x", "EXISTS account 'x' is there already"),
        ("ADD n QUOTA 10 ACCOUNTS 1 x", "NOTFOUND there is no module 'n'"),
        ("DEL 3 p0 p1", "3 words are announced and 2 follow"),
        ("DEL 2 p0 nobody", "NOTFOUND there is no account 'nobody'"),
        ("BOOK MARGIN x", "ERR MARGIN: a price is"),
        ("BOOK LENDLEVEL 17", "ERR LENDLEVEL must be 0 to 16, not 17"),
        ("MODULE m DEPARTMENT d INSTANCES 1 MIN -1", "ERR MIN must be 0 to 10000, not -1"),
        ("MODULE m DEPARTMENT d INSTANCES 1 SHARE half", "SHARE"),
        ("MODULE m DEPARTMENT d INSTANCES 1 CAP -1", "ERR CAP must be 0 to"),
        ("DELMODULE m", "BADSTATE module 'm' has 2 accounts"),
        ("DELMODULE n", "NOTFOUND there is no module 'n'"),
        ("DEPARTMENT d", "wrong number of arguments"),
        ("TARIFF QUOTA 5 ACCOUNTS 1 nobody", "NOTFOUND there is no account 'nobody'"),
        ("LOGIN p0 a t TTL 0", "ERR"),
        ("LOGIN p0 a t TTL 1000", "NOTOWNER account 'p0' is free"),
        ("BOOK TURNS 5", "ERR TURNS must be"),
        ("REBALANCE MAXMOVES 0", "ERR MAXMOVES must be 1 to 1000, not 0"),
        ("INFO nothing", "NOTFOUND there is neither a module nor an account 'nothing'"),
        ("LIST INSTANCE a", "INSTANCE needs a MODULE"),
        ("LIST COLOUR red", "'COLOUR' is not expected here"),
        ("ATTACH m a TERM 7", "STALE term 7 is not the claimed one, which is 0"),
        ("LOGOUT p0 1 BACK TERM 7", "STALE term 7 is not the claimed one, which is 0"),
        ("MODULE * DEPARTMENT d INSTANCES 1 SHARE PRESENT", "ERR module must not be '*'"),
        ("MODULE n DEPARTMENT * INSTANCES 1 SHARE PRESENT", "ERR DEPARTMENT must not be '*'"),
        ("LIST COUNT 10001", "ERR COUNT must be 1 to 10000, not 10001"),
    ] {
        let reply = book.call(line);
        assert!(reply.error().contains(text), "{line}: {reply:?}");
    }
    assert_eq!(book.total("accounts"), 2, "a refused batch changes nothing");
    assert_eq!(book.client.words("ACCOUNT.INFO none").error().split(' ').next(), Some("NOKEY"));
    book.client.words("SET text 1");
    assert_eq!(book.client.words("ACCOUNT.BOOK text").error().split(' ').next(), Some("WRONGTYPE"));
}
