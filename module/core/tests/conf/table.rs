//! The table of transitions of docs/conferences.md, row by row and cell by cell: each is driven through `decide`,
//! `decide_due` and `apply` from a conference in the column's state. A cell says where the conference stands
//! afterwards, and after a colon what its unit `a:1:1` (or whoever spoke) was told.

use super::rig::{MINUTE, Rig, wish};
use allot_core::conf::Reply;
use allot_core::conf::request::{ClientRequest, Request, UnitRequest};
use allot_core::conf::state::{Policy, Settings};
use allot_core::shared::Bytes;

const A: &str = "a:1:1";
const B: &str = "b:1:1";

/// The columns. `recovering` is a creation that recovers a conference, on B; `lost` is pending, and A had it last.
const COLUMNS: [&str; 8] =
    ["none", "ended", "waiting", "creating", "recovering", "open", "lost", "scheduled"];

/// The conference `7` in that state. Its unit is A, but B where it is being recovered; both are up.
fn world(column: &str) -> Rig {
    let mut rig = Rig::with(Settings { policy: Policy::Earliest, ..Settings::default() }, &[A, B]);
    if column != "none" {
        let start = (column == "scheduled").then_some(rig.now + 10 * MINUTE);
        let end = Some(rig.now + 20 * MINUTE);
        rig.ask(&Request::Client(ClientRequest::Create(allot_core::conf::request::Create {
            start,
            end,
            request: Some(b"r"),
            ..wish("7")
        })))
        .unwrap();
        assert_eq!(rig.owner("7"), if start.is_some() { "" } else { A });
    }
    if !matches!(column, "none" | "creating" | "scheduled") {
        let epoch = rig.epoch("7");
        rig.ack("7", A, epoch);
    }
    match column {
        "waiting" => rig.restart(&[A, B]),
        "ended" => drop(rig.ended("7", A, rig.epoch("7"))),
        "lost" | "recovering" => {
            rig.down(A);
            rig.join(A, 10);
        }
        _ => {}
    }
    if column == "recovering" {
        rig.recover();
        assert_eq!(rig.owner("7"), B);
    }
    let expected = match column {
        "lost" => "pending",
        "recovering" => "creating",
        other => other,
    };
    assert_eq!(rig.word("7"), expected);
    rig.told.clear();
    rig
}

/// The unit renews its lease, which has this length from now on.
fn lease(rig: &mut Rig, cmu: &str, lease: i64) {
    let join =
        UnitRequest::Join { cmu: cmu.as_bytes(), capacity: 10, zone: None, tags: &[], lease, machine: None };
    rig.ask(&Request::Unit(join)).unwrap();
}

type Act = fn(&mut Rig);

/// The unit and epoch of the latest assignment.
fn last(rig: &Rig) -> (String, u64) {
    let Some(one) = rig.realm.conference_called(b"7") else { return (A.into(), 17) };
    let unit = one.last_unit().map_or(A.into(), |unit| String::from_utf8_lossy(unit).into_owned());
    (unit, one.epoch)
}

fn row(event: &str, cells: [&str; 8], act: impl Fn(&mut Rig) -> String) {
    for (column, cell) in COLUMNS.into_iter().zip(cells) {
        // Cannot be: there is nobody who could say so.
        if cell == "-" {
            continue;
        }
        let mut rig = world(column);
        let (unit, _) = last(&rig);
        let before = rig.word("7");
        let reply = act(&mut rig);
        let after = if rig.word("7") == before { "same" } else { rig.word("7") };
        let told = rig.verbs(&unit);
        let refused = matches!(&reply[..], "STALE" | "NOTOWNER" | "NOTFOUND" | "EXISTS" | "BADSTATE");
        let outcome = match (refused, told.is_empty()) {
            (true, _) => reply,
            (false, true) => after.to_owned(),
            (false, false) => format!("{after}:{told}"),
        };
        assert_eq!(outcome, cell, "{event}, {column}");
        rig.check();
    }
}

#[test]
fn create() {
    // none, ended, waiting, creating, recovering, open, pending
    row(
        "create",
        ["creating:CREATE", "creating:CREATE", "EXISTS", "EXISTS", "EXISTS", "EXISTS", "EXISTS", "EXISTS"],
        |rig| rig.code(&Request::Client(ClientRequest::Create(wish("7")))),
    );
    row(
        "the same again",
        ["creating:CREATE", "same", "same", "same", "same", "same", "same", "same"],
        |rig| {
            rig.code(&Request::Client(ClientRequest::Create(allot_core::conf::request::Create {
                request: Some(b"r"),
                ..wish("7")
            })))
        },
    );
}

#[test]
fn ack() {
    row("ack, match", ["-", "-", "open", "open", "open", "same", "-", "-"], |rig| {
        let (unit, epoch) = last(rig);
        rig.ack("7", &unit, epoch)
    });
    let stale =
        ["same:RELEASE", "same:RELEASE", "same:RELEASE", "same:RELEASE", "same:RELEASE", "same:RELEASE"];
    let all = [stale[0], stale[1], stale[2], stale[3], stale[4], stale[5], "same:RELEASE", "same:RELEASE"];
    row("ack, of another epoch", all, |rig| {
        let (unit, epoch) = last(rig);
        rig.ack("7", &unit, epoch + 1)
    });
    row("ack, of another unit", ["same", "same", "same", "same", "same", "same", "same", "same"], |rig| {
        let (unit, epoch) = last(rig);
        let other = if unit == A { B } else { A };
        let reply = rig.ack("7", other, epoch);
        let over = u8::from(rig.word("7") == "ended");
        assert_eq!(rig.commands(other), [format!("RELEASE 7 {other} {epoch} {over}")]);
        reply
    });
}

#[test]
fn nack_and_create_timeout() {
    row(
        "nack",
        ["NOTFOUND", "STALE", "pending", "same", "pending", "BADSTATE", "NOTOWNER", "NOTOWNER"],
        |rig| {
            let (unit, epoch) = last(rig);
            rig.nack("7", &unit, epoch)
        },
    );
    row("create timeout", ["-", "-", "-", "same:RELEASE", "pending:RELEASE", "same", "-", "-"], |rig| {
        rig.pass(10_000);
        String::new()
    });
    // There is no other unit.
    row("last nack", ["-", "-", "-", "ended", "pending", "-", "-", "-"], |rig| {
        let (unit, epoch) = last(rig);
        rig.down(if unit == A { B } else { A });
        rig.nack("7", &unit, epoch)
    });
    row("last create timeout", ["-", "-", "-", "ended:RELEASE", "pending:RELEASE", "-", "-", "-"], |rig| {
        let (unit, _) = last(rig);
        rig.down(if unit == A { B } else { A });
        rig.pass(10_000);
        String::new()
    });
    row("create timeout, lease over", ["-", "-", "-", "same", "same", "-", "-", "-"], |rig| {
        let (unit, _) = last(rig);
        lease(rig, &unit, 100);
        rig.pass(10_000);
        // The unit is back. It has the whole time again.
        lease(rig, &unit, MINUTE);
        rig.pass(9_999);
        String::new()
    });
    row("create timeout, suspect", ["-", "-", "-", "same", "same", "-", "-", "-"], |rig| {
        let (unit, _) = last(rig);
        // 60 % of the lease are over, and its answer may be lost.
        lease(rig, &unit, 15_000);
        rig.pass(10_000);
        lease(rig, &unit, MINUTE);
        rig.pass(9_999);
        String::new()
    });
    row("create timeout after a restart", ["-", "-", "-", "same", "same", "-", "-", "-"], |rig| {
        rig.pass(9_999);
        rig.restart(&[A, B]);
        rig.pass(9_999);
        String::new()
    });
}

#[test]
fn program_failed() {
    let failed = ["NOTFOUND", "STALE", "pending", "same", "pending", "pending", "NOTOWNER", "NOTOWNER"];
    row("failed", failed, |rig| {
        let (unit, epoch) = last(rig);
        rig.failed("7", &unit, epoch)
    });
    let other = ["NOTFOUND", "STALE", "STALE", "STALE", "STALE", "STALE", "NOTOWNER", "NOTOWNER"];
    row("failed, other epoch", other, |rig| {
        let (unit, epoch) = last(rig);
        rig.failed("7", &unit, epoch + 1)
    });
}

#[test]
fn report_is_creating_the_conference() {
    row("is creating it, match", ["-", "-", "same", "same", "same", "same", "-", "-"], |rig| {
        let (unit, epoch) = last(rig);
        rig.report_starting(&unit, epoch, &[("7", epoch)]);
        String::new()
    });
    row("is creating it, otherwise", ["same:RELEASE"; 8], |rig| {
        let (unit, epoch) = last(rig);
        rig.report_starting(&unit, epoch - 1, &[("7", epoch + 5)]);
        String::new()
    });
}

#[test]
fn unit_down_or_replaced() {
    row("down", ["-", "same", "pending", "pending", "pending", "pending", "same", "same"], |rig| {
        let (unit, _) = last(rig);
        rig.down(&unit);
        String::new()
    });
    row("replaced", ["-", "same", "pending", "pending", "pending", "pending", "same", "same"], |rig| {
        let (unit, _) = last(rig);
        rig.join(&unit.replace(":1:1", ":1:2"), 10);
        String::new()
    });
}

#[test]
fn report_has_the_conference() {
    row("has it, match", ["-", "-", "open", "open", "open", "same", "-", "-"], |rig| {
        let (unit, epoch) = last(rig);
        rig.report(&unit, epoch, &[("7", epoch)]);
        String::new()
    });
    let told = "same:RELEASE";
    row("has it, otherwise, its own is yet to come", [told; 8], |rig| {
        let (unit, epoch) = last(rig);
        rig.report(&unit, epoch - 1, &[("7", epoch + 5)]);
        String::new()
    });
    let found = "open:EPOCH";
    row("has it, unknown copy", [found, told, found, found, found, "same:EPOCH", found, found], |rig| {
        let (unit, epoch) = last(rig);
        rig.report(&unit, epoch + 5, &[("7", epoch + 5)]);
        String::new()
    });
    row("adoption", ["-", "-", "-", "-", "open:RELEASE", "-", "open:EPOCH", "-"], |rig| {
        // It had been on A before it was lost.
        let lost = rig.one("7").history[0].clone();
        rig.report(A, lost.epoch, &[("7", lost.epoch)]);
        assert_eq!(rig.owner("7"), A);
        assert!(rig.epoch("7") > lost.epoch && rig.one("7").copy_epoch == lost.copy_epoch);
        String::new()
    });
}

#[test]
fn report_has_the_conference_at_an_older_epoch() {
    // A's copy is adopted; before it heard of its new epoch it reports the old one.
    for state in ["open", "waiting"] {
        let mut rig = world("lost");
        let old = rig.epoch("7");
        rig.report(A, old, &[("7", old)]);
        let epoch = rig.epoch("7");
        if state == "waiting" {
            rig.restart(&[A, B]);
        }
        rig.told.clear();
        let reply = rig.report(A, old, &[("7", old)]);
        let Reply::Reported(reported) = reply else { panic!("{reply:?}") };
        assert_eq!(reported.adopted, [(Bytes::from_slice(b"7"), old, epoch)], "the reply lists it as well");
        assert_eq!((rig.word("7"), rig.epoch("7")), (state, epoch));
        assert_eq!(rig.commands(A), [format!("EPOCH 7 {A} {epoch} {old}")]);
    }
}

#[test]
fn report_lacks_the_conference() {
    row("lacks it, epoch > HIGHEST", ["-", "-", "same", "same", "same", "same", "same", "same"], |rig| {
        let (unit, epoch) = last(rig);
        rig.report(&unit, epoch - 1, &[]);
        String::new()
    });
    row(
        "lacks it, epoch <= HIGHEST",
        ["-", "-", "pending", "pending", "pending", "pending", "same", "same"],
        |rig| {
            let (unit, epoch) = last(rig);
            rig.report(&unit, epoch, &[]);
            String::new()
        },
    );
    row("names it as ended", ["-", "same", "ended", "ended", "ended", "ended", "ended", "same"], |rig| {
        let (unit, epoch) = last(rig);
        rig.report_with(&unit, epoch, &[("7", epoch)], &[]);
        String::new()
    });
    // The unit of the failed recovery is not the next one to try.
    let mut rig = world("recovering");
    let (unit, epoch) = last(&rig);
    rig.report(&unit, epoch, &[]);
    assert_eq!(rig.one("7").tried.len(), 1);
}

#[test]
fn ended_by_its_unit() {
    row(
        "ended, match",
        ["NOTFOUND", "same", "ended", "ended", "ended", "ended", "ended", "NOTOWNER"],
        |rig| {
            let (unit, epoch) = last(rig);
            rig.ended("7", &unit, epoch)
        },
    );
    row(
        "ended, other epoch",
        ["NOTFOUND", "STALE", "STALE", "STALE", "STALE", "STALE", "NOTOWNER", "NOTOWNER"],
        |rig| {
            let (unit, epoch) = last(rig);
            rig.ended("7", &unit, epoch - 1)
        },
    );
    let over = "ended:RELEASE";
    row("ended, unknown copy", ["NOTFOUND", "STALE", over, over, over, over, "ended", "ended"], |rig| {
        let (unit, epoch) = last(rig);
        rig.ended("7", &unit, epoch + 20_000)
    });
    row(
        "ended, unknown copy, later epochs reported",
        ["NOTFOUND", "STALE", over, over, over, over, "ended", "ended"],
        |rig| {
            let (unit, epoch) = last(rig);
            rig.join("c:1:1", 10);
            rig.report("c:1:1", epoch + 20_001, &[]);
            rig.ended("7", &unit, epoch + 20_000)
        },
    );
    // From the unit that had it before it was lost, while another creates it.
    let mut rig = world("recovering");
    let lost = rig.one("7").history[0].epoch;
    assert_eq!(
        (rig.ended("7", A, lost), rig.word("7"), rig.verbs(B)),
        ("Ok".into(), "ended", "RELEASE".into())
    );
    // Once the other has it open, another copy continues.
    let mut rig = world("recovering");
    let lost = rig.one("7").history[0].epoch;
    let epoch = rig.epoch("7");
    rig.ack("7", B, epoch);
    assert_eq!((rig.ended("7", A, lost), rig.word("7")), ("NOTOWNER".into(), "open"));
    // And while it is pending again: it is A's last word that counts, not B's, which never had it open.
    let mut rig = world("recovering");
    let epoch = rig.epoch("7");
    rig.nack("7", B, epoch);
    assert_eq!(rig.ended("7", B, epoch), "NOTOWNER");
    assert_eq!((rig.ended("7", A, lost), rig.word("7")), ("Ok".into(), "ended"));
}

#[test]
fn given_up_at_release() {
    row(
        "given up",
        ["NOTFOUND", "same", "pending", "pending", "pending", "pending", "NOTOWNER", "NOTOWNER"],
        |rig| {
            let (unit, epoch) = last(rig);
            rig.given_up("7", &unit, epoch)
        },
    );
    row(
        "given up, other epoch",
        ["NOTFOUND", "STALE", "STALE", "STALE", "STALE", "STALE", "NOTOWNER", "NOTOWNER"],
        |rig| {
            let (unit, epoch) = last(rig);
            rig.given_up("7", &unit, epoch + 1)
        },
    );
}

#[test]
fn recovery() {
    row("recover", ["same", "same", "same", "same", "same", "same", "creating", "same"], |rig| {
        rig.recover();
        String::new()
    });
}

#[test]
fn start() {
    row("start", ["-", "-", "-", "-", "-", "-", "-", "creating:CREATE"], |rig| {
        rig.pass(10 * MINUTE);
        String::new()
    });
    row("start, no unit has room", ["-", "-", "-", "-", "-", "-", "-", "pending"], |rig| {
        rig.down(A);
        rig.down(B);
        rig.pass(10 * MINUTE);
        String::new()
    });
}

#[test]
fn end_time_and_window() {
    row(
        "end time",
        ["-", "-", "ending:RELEASE", "ending:RELEASE", "ending:RELEASE", "ending:RELEASE", "ended", "ended"],
        |rig| {
            rig.now += 20 * MINUTE;
            rig.due();
            String::new()
        },
    );
    row("window", ["-", "-", "-", "-", "-", "-", "ended", "-"], |rig| {
        let e164 = b"7";
        let end = rig.now + 50 * MINUTE;
        rig.ask(&Request::Client(ClientRequest::Extend { e164, end, dry_run: false })).unwrap();
        rig.pass(30 * MINUTE - 1);
        assert_eq!(rig.word("7"), "pending");
        rig.pass(1);
        String::new()
    });
}

#[test]
fn release() {
    row(
        "release",
        [
            "NOTFOUND",
            "same",
            "ending:RELEASE",
            "ending:RELEASE",
            "ending:RELEASE",
            "ending:RELEASE",
            "ended",
            "ended",
        ],
        |rig| rig.release("7"),
    );
    for column in ["waiting", "creating", "recovering", "open"] {
        let mut rig = world(column);
        rig.release("7");
        assert_eq!(rig.release("7"), "Conference([55])");
        rig.pass(14_999);
        assert_eq!(rig.word("7"), "ending");
        let unit = rig.owner("7");
        assert_eq!(rig.verbs(&unit), "RELEASE");
        rig.pass(1);
        assert_eq!((rig.word("7"), rig.verbs(&unit)), ("ended", "RELEASE".into()), "{column}");
    }
}

#[test]
fn scheduler_restart() {
    row(
        "restart, unit found",
        ["same", "same", "same", "same", "same", "waiting:REPORT", "same", "same"],
        |rig| {
            rig.restart(&[A, B]);
            String::new()
        },
    );
    row(
        "restart, lease good",
        ["same", "same", "same", "same", "same", "waiting:REPORT", "same", "same"],
        |rig| {
            rig.restart(&[]);
            String::new()
        },
    );
    row(
        "restart, neither",
        ["same", "same", "pending", "pending", "pending", "pending", "same", "same"],
        |rig| {
            // Both lose their leases; nothing else is due meanwhile.
            for cmu in [A, B] {
                lease(rig, cmu, 100);
            }
            rig.pass(100);
            rig.told.clear();
            rig.restart(&[]);
            String::new()
        },
    );
}

#[test]
fn wait_timeout() {
    row("wait timeout, lease good", ["-", "-", "same:REPORT", "-", "-", "-", "-", "-"], |rig| {
        rig.pass(30_000);
        String::new()
    });
    row("wait timeout, lease over", ["-", "-", "pending", "-", "-", "-", "-", "-"], |rig| {
        lease(rig, A, 100);
        rig.pass(30_000);
        String::new()
    });
}

#[test]
fn ending_conference_ends_instead_of_waiting_or_being_recovered() {
    for column in ["waiting", "creating", "recovering", "open"] {
        let acts: [(&str, Act); 7] = [
            ("lacks", |rig| {
                let (unit, epoch) = last(rig);
                rig.report(&unit, epoch, &[]);
            }),
            ("given up", |rig| {
                let (unit, epoch) = last(rig);
                rig.given_up("7", &unit, epoch);
            }),
            ("down", |rig| {
                let unit = rig.owner("7");
                rig.down(&unit);
            }),
            ("nack", |rig| {
                let (unit, epoch) = last(rig);
                rig.nack("7", &unit, epoch);
            }),
            ("failed", |rig| {
                let (unit, epoch) = last(rig);
                rig.failed("7", &unit, epoch);
            }),
            ("restart", |rig| rig.restart(&[A, B])),
            ("adoption", |rig| {
                let lost = rig.one("7").history[0].epoch;
                rig.report(A, lost, &[("7", lost)]);
            }),
        ];
        for (name, act) in acts {
            // Cells that go elsewhere: an open one is nacked, or restarted before it is open; a first one is adopted.
            let other = match name {
                "nack" => column == "open",
                "restart" => column != "open",
                "adoption" => column != "recovering",
                _ => false,
            };
            if other {
                continue;
            }
            let mut rig = world(column);
            let (unit, _) = last(&rig);
            rig.release("7");
            rig.told.clear();
            act(&mut rig);
            assert_eq!(rig.word("7"), "ended", "{column}, {name}");
            // A unit that has no copy need not be told.
            let told = if matches!(name, "lacks" | "given up" | "failed") { "" } else { "RELEASE" };
            assert!(rig.verbs(&unit) == told || column.ends_with("ing"), "{column}, {name}");
            rig.check();
        }
    }
}

#[test]
fn unrecoverable_conference_ends_instead_of_waiting() {
    for (name, lose) in [
        ("lacks", (|rig: &mut Rig| drop(rig.report(A, rig.epoch("7"), &[]))) as Act),
        ("given up", |rig| drop(rig.given_up("7", A, rig.epoch("7")))),
        ("failed", |rig| drop(rig.failed("7", A, rig.epoch("7")))),
        ("down", (|rig: &mut Rig| rig.down(A)) as Act),
        ("replaced", |rig| rig.join("a:1:2", 10)),
        ("restart", |rig| {
            lease(rig, A, 100);
            rig.pass(100);
            rig.restart(&[]);
        }),
    ] {
        let mut rig = Rig::new(&[A, B]);
        let create = allot_core::conf::request::Create { recoverable: false, ..wish("7") };
        rig.ask(&Request::Client(ClientRequest::Create(create))).unwrap();
        let epoch = rig.epoch("7");
        rig.ack("7", A, epoch);
        lose(&mut rig);
        assert_eq!(rig.word("7"), "ended", "{name}");
        assert_eq!(rig.realm.licences_used(), 0);
        rig.check();
    }
}
