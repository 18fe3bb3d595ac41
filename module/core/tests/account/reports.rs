//! Use that instances report as a total since their assignment, and epochs that are raised after a failover.

use super::rig::{Rig, login, name};
use allot_core::account::Reply;
use allot_core::account::request::{InstanceRequest, ManagerRequest};

const DAY_AHEAD: u64 = 24 * 3_600_000_000;

fn report(rig: &mut Rig, account: &str, epoch: u64, total: u64) -> u64 {
    let account = account.as_bytes();
    match rig.ask(InstanceRequest::Report { account, epoch, total }) {
        Ok(Reply::Used(used)) => used.used,
        other => panic!("{other:?}"),
    }
}

fn raise(rig: &mut Rig, epoch: u64, account: Option<&str>) -> &'static str {
    rig.code(ManagerRequest::Raise { epoch, account: account.map(str::as_bytes) })
}

#[test]
fn reported_total_is_counted_once_for_each_assignment() {
    let mut rig = Rig::with(2, 1, &["a"]);
    let account = name(0);
    let first = rig.account(&account).epoch;
    assert_eq!(report(&mut rig, &account, first, 40), 40);
    assert_eq!(report(&mut rig, &account, first, 40), 40, "a repeated report");
    assert_eq!(report(&mut rig, &account, first, 30), 40, "a report that arrives late");
    assert_eq!(report(&mut rig, &account, first, 55), 55);
    rig.ask(InstanceRequest::Logout { account: account.as_bytes(), epoch: first, back: true, term: None })
        .unwrap();
    rig.settle();
    let second = rig.account(&account).epoch;
    assert!(second > first);
    assert_eq!(report(&mut rig, &account, second, 5), 60, "a new assignment counts from 0");
    assert_eq!(report(&mut rig, &account, first, 60), 65, "the rest of the assignment before");
    let module = rig.book.find_module(b"m").unwrap();
    let instance = rig.book.find_instance(module, b"a").unwrap();
    let hour = (rig.now, rig.now + 3_600_000);
    let forecast = rig.book.instance(instance).unwrap().pace.forecast(rig.now, hour, 1);
    assert_eq!(forecast, Some(65), "the pace counts reported use");
    rig.check();
}

#[test]
fn report_of_an_assignment_too_old_to_be_kept_is_refused() {
    let mut rig = Rig::with(2, 1, &["a"]);
    let account = name(0);
    let mut epochs = Vec::new();
    for used in 1..=5 {
        let epoch = rig.account(&account).epoch;
        assert_eq!(report(&mut rig, &account, epoch, 1), used);
        epochs.push(epoch);
        rig.ask(InstanceRequest::Logout { account: account.as_bytes(), epoch, back: true, term: None })
            .unwrap();
        rig.settle();
    }
    let late = InstanceRequest::Report { account: account.as_bytes(), epoch: epochs[0], total: 1 };
    assert_eq!(rig.code(late), "STALE");
    let huge = InstanceRequest::Report { account: account.as_bytes(), epoch: epochs[4], total: u64::MAX };
    assert_eq!(rig.code(huge), "ERR");
    rig.check();
}

#[test]
fn report_of_an_assignment_that_never_was_is_refused() {
    let mut rig = Rig::with(2, 2, &["a"]);
    let (account, other) = (name(0), name(1));
    let epoch = rig.account(&account).epoch;
    let login_epoch = rig.login(&account, "a", 60_000);
    let others = rig.account(&other).epoch;
    for never in [0, 7, epoch - 1, others, login_epoch, (1 << 53) - 2, (1 << 53) - 1] {
        let request = InstanceRequest::Report { account: account.as_bytes(), epoch: never, total: 1 };
        assert_eq!(rig.code(request), "STALE", "{never}");
    }
    assert_eq!(report(&mut rig, &account, epoch, 3), 3);
    // The tree of a leader has an assignment that a failover has lost.
    let lost = login_epoch + 5_000_000;
    assert_eq!(raise(&mut rig, lost, Some(&account)), "OK");
    assert_eq!(report(&mut rig, &account, lost, 4), 7);
    let now = rig.account(&account).epoch;
    assert_eq!(report(&mut rig, &account, now, 2), 9);
    rig.check();
}

#[test]
fn raised_epoch_is_below_all_later_ones() {
    let mut rig = Rig::with(2, 2, &["a"]);
    let (account, other) = (name(0), name(1));
    let (before, since) = (rig.account(&account).epoch, rig.account(&account).since);
    let login_epoch = rig.login(&account, "a", 60_000);
    let lost = login_epoch + 5_000_000;
    assert_eq!(raise(&mut rig, lost, Some(&account)), "OK");
    let record = rig.account(&account);
    assert!(record.epoch > lost && record.since == since, "the account has not moved");
    assert_eq!(record.login.as_ref().unwrap().epoch, login_epoch, "the login remains");
    assert_eq!(
        (rig.holder(&account), record.history.len()),
        ("a".to_owned(), 3),
        "and the one that was lost"
    );
    assert!(before < lost);
    // The same request again, or another account: the epoch is great enough already, or is not asked for.
    let epoch = rig.account(&account).epoch;
    assert_eq!(raise(&mut rig, lost, Some(&account)), "OK");
    assert_eq!(raise(&mut rig, lost, None), "OK");
    assert_eq!(rig.account(&account).epoch, epoch);
    rig.ask(login(&other, "a", "t", 1000)).unwrap();
    assert!(rig.account(&other).login.as_ref().unwrap().epoch > lost);
    rig.check();
}

#[test]
fn epoch_cannot_be_raised_far_beyond_the_clock() {
    let mut rig = Rig::with(2, 1, &["a"]);
    let now = rig.now.unsigned_abs() * 1000;
    assert_eq!(raise(&mut rig, now + DAY_AHEAD + 1, None), "ERR");
    assert_eq!(raise(&mut rig, now + DAY_AHEAD, None), "OK");
    assert_eq!(rig.code(ManagerRequest::Raise { epoch: 1, account: Some(b"nobody") }), "NOTFOUND");
    rig.check();
}
