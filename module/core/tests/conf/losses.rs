//! What would become of the conferences of each unit if the unit died, compared with what happens when it dies.

use super::rig::{Rig, wish};
use allot_core::conf::conference::State;
use allot_core::conf::decide::LossForecast;
use allot_core::conf::request::{ClientRequest, Create, Request, SchedulerRequest};
use allot_core::conf::state::Settings;
use allot_core::conf::unit::UnitState;
use allot_core::conf::{Realm, decide, decide_due};

/// The forecasts for all units, part by part.
fn forecasts(rig: &Rig) -> Vec<LossForecast> {
    let (mut all, mut next) = rig.realm.forecast_losses(0, rig.now);
    while next != 0 {
        let (some, following) = rig.realm.forecast_losses(next, rig.now);
        assert!(!some.is_empty(), "a part considers at least one unit");
        all.extend(some);
        next = following;
    }
    all
}

/// Loses each unit of a copy of the realm, and compares. Returns how many conferences found room, and how many did not.
pub(super) fn losses_are_foretold(rig: &Rig) -> (usize, usize) {
    let all = forecasts(rig);
    let alive = rig.realm.units().filter(|unit| unit.state != UnitState::Down).count();
    assert_eq!(all.len(), alive);
    let (mut placed, mut no_room) = (0, 0);
    for forecast in all {
        let mut realm = rig.realm.clone();
        let owned = realm.list(None, realm.find_unit(&forecast.cmu), 0, usize::MAX).0;
        let owned: Vec<_> = owned.into_iter().map(|conference| conference.e164.clone()).collect();
        let act = |realm: &mut Realm, request| {
            let decision = decide(realm, rig.now, &Request::Scheduler { term: None, request }).unwrap();
            decision.events.iter().for_each(|event| realm.apply(rig.now, event));
        };
        act(&mut realm, SchedulerRequest::Down { cmu: &forecast.cmu });
        // What is due at once happens before the next request.
        for event in decide_due(&realm, rig.now, usize::MAX) {
            realm.apply(rig.now, &event);
        }
        act(&mut realm, SchedulerRequest::Recover { count: 1000 });
        let count = |state| {
            let is_in =
                |e164: &&allot_core::shared::Bytes| realm.conference_called(e164).unwrap().state == state;
            owned.iter().filter(is_in).count()
        };
        let happened = LossForecast {
            placed: count(State::Creating),
            no_room: count(State::Pending),
            ending: count(State::Ended),
            cmu: forecast.cmu.clone(),
        };
        assert_eq!(forecast, happened);
        placed += happened.placed;
        no_room += happened.no_room;
    }
    (placed, no_room)
}

#[test]
fn forecast_counts_what_finds_room_and_what_ends() {
    let mut rig = Rig::new(&["a:1:1", "b:1:1"]);
    for e164 in ["1", "2", "3", "4"] {
        let create = Create { recoverable: e164 != "1", size: 3, ..wish(e164) };
        rig.ask(&Request::Client(ClientRequest::Create(create))).unwrap();
    }
    let count = |all: &[LossForecast]| -> Vec<[usize; 3]> {
        all.iter().map(|forecast| [forecast.placed, forecast.no_room, forecast.ending]).collect()
    };
    // Two of size 3 on each unit of capacity 10: one more fits on either.
    assert_eq!(count(&forecasts(&rig)), [[1, 0, 1], [1, 1, 0]]);
    assert_eq!(losses_are_foretold(&rig), (2, 1));
    rig.join("c:1:1", 10);
    assert_eq!(count(&forecasts(&rig)), [[1, 0, 1], [2, 0, 0], [0, 0, 0]]);
    rig.check();
}

#[test]
fn forecast_of_many_conferences_comes_in_parts() {
    let units = ["a:1:1", "b:1:1", "c:1:1"];
    let mut rig = Rig::new(&[]);
    for cmu in units {
        rig.join(cmu, 3000);
    }
    for number in 0..6300 {
        let e164 = number.to_string();
        let request = Request::Client(ClientRequest::Create(wish(&e164)));
        let decision = decide(&rig.realm, rig.now, &request).unwrap();
        decision.events.iter().for_each(|event| rig.apply(event));
    }
    let (first, next) = rig.realm.forecast_losses(0, rig.now);
    let (second, end) = rig.realm.forecast_losses(next, rig.now);
    assert_eq!((first.len(), second.len(), end), (2, 1, 0));
    for forecast in first.into_iter().chain(second) {
        assert_eq!((forecast.placed, forecast.no_room, forecast.ending), (1800, 300, 0));
    }
}

#[test]
fn plan_knows_that_a_recovery_has_waited_too_long() {
    let settings = Settings { window: 2000, ..Settings::default() };
    let mut rig = Rig::with(settings, &["a:1:1"]);
    rig.open("1");
    rig.down("a:1:1");
    rig.join("b:1:1", 10);
    assert_eq!(rig.recover(), 1);
    rig.join("c:1:1", 10);
    let placed = |rig: &Rig| forecasts(rig).iter().map(|forecast| forecast.placed).sum::<usize>();
    assert_eq!(placed(&rig), 1);
    rig.pass(2500);
    let unit = rig.realm.find_unit(b"b:1:1").unwrap();
    assert_eq!(rig.realm.plan_down(unit, rig.now)[0].1, Err("window"));
    assert_eq!((placed(&rig), losses_are_foretold(&rig)), (0, (0, 0)));
    rig.down("b:1:1");
    rig.due();
    assert_eq!(rig.word("1"), "ended");
}
