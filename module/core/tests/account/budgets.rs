//! Budgets of modules and departments, other tariffs, modules that go, and the event stream.

use super::rig::{HOUR, Rig, login, name, tariff, usage};
use allot_core::account::request::{Changes, InstanceRequest, ManagerRequest, ModuleSettings};
use allot_core::account::tariff::{Amount, MAX_COUNT, Step, Tariff};
use allot_core::account::{Event, Settings};

/// Modules m and n of department a/b, and o of a, with one account and one instance each.
fn rig() -> Rig {
    let mut rig = Rig::new(Settings { turns: vec![10 * HOUR], ..Settings::default() });
    for (number, (module, department)) in
        [("m", &b"a/b"[..]), ("n", b"a/b"), ("o", b"a")].into_iter().enumerate()
    {
        define(
            &mut rig,
            ModuleSettings { module: module.as_bytes(), department, ..ModuleSettings::default() },
        );
        rig.attach(module, module);
        rig.add(module, number..number + 1);
    }
    rig.settle();
    rig
}

fn define(rig: &mut Rig, settings: ModuleSettings<'_>) {
    rig.ask(ManagerRequest::Module(ModuleSettings { instances: 1, ..settings })).unwrap();
}

fn cap(rig: &mut Rig, department: &[u8], cap: i64) {
    rig.ask(ManagerRequest::Department { department, cap }).unwrap();
    rig.check();
}

fn use_one(rig: &mut Rig, number: usize, count: i64) -> &'static str {
    let epoch = rig.account(&name(number)).epoch;
    let code = rig.code(usage(&name(number), epoch, count));
    rig.check();
    code
}

/// The waiting messages with these fields.
fn messages(rig: &Rig, fields: &[&str]) -> Vec<String> {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or(b"-")).into_owned();
    let line = |message: &allot_core::shared::outbox::Fields| {
        fields.iter().map(|field| text(message.get(field.as_bytes()))).collect::<Vec<_>>().join(" ")
    };
    rig.book.outbox().messages().map(line).collect()
}

#[test]
fn budgets_refuse_a_count_before_it_is_counted() {
    let mut rig = rig();
    define(
        &mut rig,
        ModuleSettings { module: b"m", department: b"a/b", cap: Some(50), ..ModuleSettings::default() },
    );
    cap(&mut rig, b"a/b", 80);
    cap(&mut rig, b"a", 100);
    assert_eq!(
        [use_one(&mut rig, 0, 51), use_one(&mut rig, 0, 50), use_one(&mut rig, 0, 1)],
        ["LIMIT", "OK", "LIMIT"]
    );
    assert_eq!([use_one(&mut rig, 1, 31), use_one(&mut rig, 1, 30)], ["LIMIT", "OK"], "the department");
    assert_eq!([use_one(&mut rig, 2, 21), use_one(&mut rig, 2, 20)], ["LIMIT", "OK"], "the outer department");
    let used = |rig: &Rig| [&b"a"[..], b"a/b"].map(|name| rig.book.budget(name).unwrap().used);
    assert_eq!(used(&rig), [100, 80]);
    // What was sent stays in its department, if an account or a module goes to another one.
    let account = name(0);
    rig.ask(ManagerRequest::Move { module: b"o", accounts: vec![account.as_bytes()] }).unwrap();
    rig.settle();
    define(&mut rig, ModuleSettings { module: b"n", department: b"c", ..ModuleSettings::default() });
    assert_eq!(used(&rig), [100, 80]);
    rig.check();
    cap(&mut rig, b"a", 0);
    assert_eq!((rig.book.budget(b"a"), use_one(&mut rig, 2, 500)), (None, "OK"));
    rig.pass(10 * HOUR);
    assert_eq!(use_one(&mut rig, 0, 50), "OK", "a new month");
    rig.check();
}

#[test]
fn stream_tells_when_steps_and_parts_of_budgets_are_reached() {
    let mut rig = rig();
    rig.ask(ManagerRequest::Configure(Changes { events: Some(1000), ..Changes::default() })).unwrap();
    define(
        &mut rig,
        ModuleSettings { module: b"m", department: b"a/b", cap: Some(200), ..ModuleSettings::default() },
    );
    cap(&mut rig, b"a", 160);
    for count in [79, 21, 28, 32] {
        assert_eq!(use_one(&mut rig, 0, count), "OK");
    }
    let told = messages(&rig, &["event", "account", "step", "cost", "of", "name", "percent", "used", "cap"]);
    assert_eq!(
        told,
        [
            "step pid000000 1 2.8 - - - 128 -",
            "budget - - - department a 80 128 160",
            "step pid000000 2 10 - - - 160 -",
            "budget - - - module m 80 160 200",
            "budget - - - department a 100 160 160",
        ]
    );
}

#[test]
fn stream_tells_when_the_budget_of_a_module_and_of_an_account_is_used_up() {
    let mut rig = rig();
    let (cap_of_book, events) = (Some(90), Some(1000));
    rig.ask(ManagerRequest::Configure(Changes { cap: cap_of_book, events, ..Changes::default() })).unwrap();
    define(
        &mut rig,
        ModuleSettings { module: b"m", department: b"a/b", cap: Some(80), ..ModuleSettings::default() },
    );
    let fields = ["event", "of", "name", "percent", "used", "cap"];
    for count in [71, 1, 8] {
        assert_eq!(use_one(&mut rig, 0, count), "OK");
    }
    let mut expected = vec![
        // 71 are less than 80 % of 90.
        "budget module m 80 71 80",
        "budget account pid000000 80 72 90",
        "budget module m 100 80 80",
    ];
    assert_eq!(messages(&rig, &fields), expected);
    // In one count, both parts.
    assert_eq!([use_one(&mut rig, 1, 91), use_one(&mut rig, 1, 90)], ["LIMIT", "OK"]);
    expected.extend(["budget account pid000001 80 90 90", "budget account pid000001 100 90 90"]);
    assert_eq!(messages(&rig, &fields), expected);
}

#[test]
fn stream_tells_of_budgets_that_a_report_exceeds() {
    let mut rig = rig();
    let (cap_of_book, events) = (Some(90), Some(1000));
    rig.ask(ManagerRequest::Configure(Changes { cap: cap_of_book, events, ..Changes::default() })).unwrap();
    cap(&mut rig, b"a", 200);
    let account = name(0);
    let epoch = rig.account(&account).epoch;
    // Instructions that were sent are counted, also beyond the CAP. What is reported twice is told once.
    for total in [50, 80, 80, 170, 210] {
        let report = InstanceRequest::Report { account: account.as_bytes(), epoch, total };
        assert_eq!(rig.code(report), "OK");
    }
    rig.check();
    assert_eq!(
        messages(&rig, &["event", "account", "step", "of", "name", "percent", "used", "cap"]),
        [
            "budget - - account pid000000 80 80 90",
            "step pid000000 2 - - - 170 -",
            "budget - - account pid000000 100 170 90",
            "budget - - department a 80 170 200",
            "budget - - department a 100 210 200",
        ]
    );
}

#[test]
fn stream_tells_what_happens_to_accounts() {
    let mut rig = rig();
    assert_eq!(rig.book.outbox().len(), 0, "no stream unless it is asked for");
    rig.ask(ManagerRequest::Configure(Changes { events: Some(1000), ..Changes::default() })).unwrap();
    let account = name(0);
    let epoch = rig.login(&account, "m", HOUR);
    rig.ask(ManagerRequest::Move { module: b"n", accounts: vec![account.as_bytes()] }).unwrap();
    rig.logout(&account, epoch);
    rig.ask(ManagerRequest::Freeze { account: account.as_bytes(), on: true, until: None }).unwrap();
    rig.settle();
    let told = messages(&rig, &["event", "account", "module", "instance", "terminal", "to_module"]);
    assert_eq!(
        told,
        [
            "login pid000000 m m t -",
            "moved pid000000 m m - n",
            "revoked pid000000 m m - -",
            "logout pid000000 m m t -",
            "assigned pid000000 n n - -",
            "frozen pid000000 n - - -",
        ]
    );
    rig.check();
    let sent = rig.book.outbox().len() as u32;
    rig.apply(&Event::Flushed { count: sent - 1, last_id: (7, 0) });
    assert_eq!(rig.book.outbox().len(), 1);
    rig.check();
    rig.ask(ManagerRequest::Configure(Changes { events: Some(0), ..Changes::default() })).unwrap();
    assert_eq!(rig.book.outbox().len(), 0);
    rig.check();
}

#[test]
fn another_tariff_keeps_the_use_and_the_login_of_an_account() {
    let mut rig = Rig::with(1, 2, &["a"]);
    let (account, other) = (name(0), name(1));
    let epoch = rig.login(&account, "a", HOUR);
    rig.ask(usage(&account, epoch, 120)).unwrap();
    let steps = vec![Step { upto: 1000, price: Amount::parse_price(b"2").unwrap() }];
    let accounts = vec![account.as_bytes(), other.as_bytes()];
    let reprice = ManagerRequest::Reprice { tariff: Tariff { quota: 110, steps }, accounts };
    rig.ask(reprice.clone()).unwrap();
    rig.check();
    let record = rig.account(&account);
    assert_eq!((record.used_in(0), record.cost_in(0).to_string()), (120, "2".to_owned()));
    assert_eq!(rig.code(usage(&account, epoch, 1)), "OK");
    let before = rig.book.encode();
    assert_eq!((rig.code(reprice), rig.book.encode() == before), ("OK", true));
    let unsound = Tariff { quota: 5, steps: vec![Step { upto: 5, price: Amount(1) }] };
    assert_eq!(
        rig.code(ManagerRequest::Reprice { tariff: unsound, accounts: vec![account.as_bytes()] }),
        "ERR"
    );
    assert_eq!(rig.code(ManagerRequest::Reprice { tariff: tariff(), accounts: vec![b"nobody"] }), "NOTFOUND");
}

#[test]
fn only_a_module_without_accounts_and_instances_is_deleted() {
    let mut rig = rig();
    let remove = ManagerRequest::RemoveModule { module: b"m" };
    assert_eq!(rig.code(remove.clone()), "BADSTATE");
    let account = name(0);
    let epoch = rig.login(&account, "m", HOUR);
    rig.detach("m", "m", 0);
    rig.ask(ManagerRequest::Move { module: b"n", accounts: vec![account.as_bytes()] }).unwrap();
    assert_eq!(rig.code(remove.clone()), "BADSTATE", "the account is still logged in at its instance");
    rig.logout(&account, epoch);
    assert_eq!((rig.code(remove.clone()), rig.code(remove)), ("OK", "NOTFOUND"));
    rig.check();
    assert_eq!(rig.code(login(&account, "n", "t", HOUR)), "OK");
    define(&mut rig, ModuleSettings { module: b"m", department: b"z", ..ModuleSettings::default() });
    rig.attach("m", "again");
    rig.check();
    let pick = InstanceRequest::Pick { module: b"m", instance: b"again", count: 1 };
    assert_eq!(rig.code(pick), "OK");
}

#[test]
fn greatest_caps_reach_a_replica() {
    let mut rig = Rig::with(1, 1, &["a"]);
    let most = MAX_COUNT as i64;
    let settings =
        ModuleSettings { module: b"m", department: b"d", instances: 1, ..ModuleSettings::default() };
    define(&mut rig, ModuleSettings { cap: Some(most), ..settings });
    cap(&mut rig, b"d", most);
    rig.ask(ManagerRequest::Configure(Changes { cap: Some(most), ..Changes::default() })).unwrap();
    rig.check();
    assert_eq!(rig.code(ManagerRequest::Department { department: b"d", cap: most + 1 }), "ERR");
}
