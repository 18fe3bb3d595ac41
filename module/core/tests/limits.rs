//! Every number of every value at its limit: what a snapshot may hold, it may still hold after the next step.
//!
//! The numbers of a snapshot are found by trying: where the bytes at a place are read as a number, the number is driven
//! to the greatest that the snapshot may have there. Each request, and what is due, is then applied to such a state.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

use allot_core::account::tariff::Tariff;
use allot_core::account::{self, Book};
use allot_core::conf::{self, Realm};
use allot_core::numpool::{self, Number, Pool};
use allot_core::seat::{self, Show};
use allot_core::shared::codec::{Reader, Writer};
use allot_core::shared::machine::{Events, Machine};
use allot_core::shared::refusal::Refusal;
use allot_core::shared::token::TokenChoice;

/// The last time that a state may have reached.
const LAST_TIME: i64 = (1 << 52) - 1;

/// A request of a state at a time, and the events that follow.
type Ask<'a, M> = Box<dyn Fn(&M, i64) -> Result<Events<<M as Machine>::Event>, Refusal> + 'a>;

/// The events of each request that is asked of a state at a time.
type Asked<M> = Vec<Result<Events<<M as Machine>::Event>, Refusal>>;

/// The snapshot with another number at a place, if there is a number.
fn with_number(snapshot: &[u8], at: usize, number: u64) -> Option<Vec<u8>> {
    let mut reader = Reader::new(snapshot.get(at..)?);
    reader.unsigned().ok()?;
    let mut out = Writer { bytes: snapshot[..at].to_vec() };
    out.unsigned(number);
    out.bytes.extend_from_slice(reader.rest());
    Some(out.bytes)
}

/// The greatest number that a snapshot may have at a place, and the ones just before it. Signed numbers are twice as
/// great if they are positive, so that only every second one is accepted.
fn greatest<M: Machine>(snapshot: &[u8], at: usize) -> Vec<(u64, M)> {
    let state = |number: u64| M::decode(&with_number(snapshot, at, number)?).ok();
    let (mut accepted, mut refused) = (0u64, u64::MAX / 2);
    if state(0).is_none() {
        accepted = Reader::new(&snapshot[at..]).unsigned().map_or(0, |number| number / 2);
    }
    while refused - accepted > 1 {
        let half = accepted + (refused - accepted) / 2;
        if state(half * 2).is_some() { accepted = half } else { refused = half }
    }
    let near =
        (0..3).flat_map(|less| [(accepted * 2 + 1).checked_sub(less), (accepted * 2).checked_sub(less * 2)]);
    near.flatten().filter_map(|number| state(number).map(|state| (number, state))).collect()
}

/// Applies events as a server does, and as its replica does.
fn apply<M: Machine>(state: &M, now: i64, events: &[M::Event], place: &str) {
    let mut state = state.clone();
    for event in events {
        state.admits(event).unwrap_or_else(|damaged| panic!("{place}: {damaged}"));
        state.apply(now, event);
    }
    let saved = state.encode();
    let loaded = M::decode(&saved).unwrap_or_else(|damaged| panic!("{place}: {damaged}"));
    assert_eq!(loaded.encode(), saved, "{place}");
}

fn every_number_at_its_limit<M: Machine>(sample: &M, ask: impl Fn(&M, i64) -> Asked<M>) {
    let snapshot = sample.encode();
    let (mut numbers, mut done, mut refusals) = (0, 0, Vec::new());
    for at in 0..snapshot.len() {
        for (number, state) in greatest::<M>(&snapshot, at) {
            numbers += 1;
            let place = format!("{number} at {at} of {}", snapshot.len());
            let later = state.next_due().unwrap_or(0).min(LAST_TIME);
            for now in [state.now(1_000_000), state.now(later)] {
                apply(&state, now, &state.due(now, 100), &place);
                for asked in ask(&state, now) {
                    match asked {
                        Ok(events) => {
                            done += 1;
                            apply(&state, now, &events, &place);
                        }
                        Err(refusal) if refusal.text.contains("limit") => refusals.push(refusal.text),
                        Err(_) => {}
                    }
                }
            }
        }
    }
    assert!(numbers > 100 && done > 1000, "{numbers} numbers, {done} requests done, {refusals:?}");
}

/// A state after these requests, each with what is due before it.
fn grown<M: Machine>(mut state: M, now: i64, requests: &[Ask<'_, M>]) -> M {
    for request in requests {
        loop {
            let mut events = state.due(now, 1000);
            if events.is_empty() {
                events = state.continue_work(now, 1000);
            }
            if events.is_empty() {
                break;
            }
            events.iter().for_each(|event| state.apply(now, event));
        }
        for event in request(&state, now).unwrap() {
            state.apply(now, &event);
        }
    }
    state
}

const LONG: i64 = allot_core::shared::token::MAX_TTL;

fn token(token: &str) -> TokenChoice<'_> {
    TokenChoice { token: token.as_bytes(), chosen: true }
}

#[test]
fn numbers_of_a_show_hold_at_their_limits() {
    use seat::request::{Pick, Request};
    let plan = r#"{"events":10,"limits":{"holds_per_user":0},"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}"#;
    let pick = |name, seat, ttl| {
        Request::Pick(Pick {
            user: b"ann",
            ttl,
            token: token(name),
            orphans: None,
            from: None,
            seats: vec![seat],
            exchange: vec![],
        })
    };
    let confirm = |token| Request::Confirm { token, user: Some(b"ann"), order: Some(b"o1") };
    let ask = |request| {
        Box::new(move |show: &Show, now| Ok(seat::decide(show, now, &request)?.events)) as Ask<'_, Show>
    };
    let show = grown(
        Show::open(plan, 1000).unwrap(),
        1000,
        &[
            ask(pick("t1", b"a-1-1", LONG)),
            ask(pick("t2", b"a-1-3", LONG)),
            ask(confirm(b"t2")),
            ask(Request::Block { name: None, until: None, per_user: None, seats: vec![b"a-1-8"] }),
        ],
    );
    every_number_at_its_limit(&show, |show, now| {
        let requests = [
            pick("t3", b"a-1-5", LONG),
            Request::Extend { token: b"t1", ttl: LONG },
            confirm(b"t1"),
            Request::Release { token: b"t1", seats: None, into: None },
            Request::Refund { order: None, seats: Some(vec![b"a-1-3"]), into: None },
        ];
        requests.iter().map(|request| Ok(seat::decide(show, now, request)?.events)).collect()
    });
}

#[test]
fn numbers_of_a_pool_hold_at_their_limits() {
    use numpool::request::{Call, Changes, OfSwitch, Request};
    let all: Vec<Number> = ["1", "2", "3", "4"].map(|text| Number::parse(text.as_bytes()).unwrap()).to_vec();
    let call = |lease| {
        Request::Call(Call {
            number: None,
            ttl: Some(LONG),
            endless: false,
            holder: None,
            lease: token(lease),
            switch: Some(b"sw"),
            peer: Some(b"peer"),
            prefixes: &[],
            pick: None,
            random: 0,
        })
    };
    let hang_up =
        |at: usize| Request::HangUp { number: all[at], lease: None, cooldown: Some(LONG), cause: None };
    let ask = |request| {
        Box::new(move |pool: &Pool, now| Ok(numpool::decide(pool, now, &request)?.events)) as Ask<'_, Pool>
    };
    let changes = Changes { events: Some(10), ..Changes::default() };
    let pool = grown(
        Pool::new(numpool::Settings::default(), 1000),
        1000,
        &[
            ask(Request::Configure(changes)),
            ask(Request::Add(&all)),
            ask(Request::Reg { missing: false, numbers: &all[..3], ttl: Some(LONG), switch: Some(b"sw") }),
            ask(call("a")),
            ask(call("b")),
            ask(hang_up(1)),
            ask(Request::Del { numbers: &all[..1], drain: true }),
        ],
    );
    every_number_at_its_limit(&pool, |pool, now| {
        let requests = [
            call("c"),
            hang_up(0),
            Request::Renew { number: all[0], lease: b"a", ttl: LONG },
            Request::Reg { missing: false, numbers: &all[3..], ttl: Some(LONG), switch: None },
            Request::OfSwitch(OfSwitch::Unreg(b"sw")),
            Request::OfSwitch(OfSwitch::Reconcile { switch: Some(b"sw"), before: None, leases: &[] }),
        ];
        requests.iter().map(|request| Ok(numpool::decide(pool, now, request)?.events)).collect()
    });
}

#[test]
fn numbers_of_a_realm_hold_at_their_limits() {
    use conf::request::{
        AssignmentNotice, ClientRequest, Create, Report, Request, SchedulerRequest, Set, UnitRequest,
        WishesRequest,
    };
    let create = |e164| {
        Request::Client(ClientRequest::Create(Create {
            e164,
            start: None,
            end: Some(1 << 45),
            size: 2,
            licences: 2,
            priority: 3,
            wishes: WishesRequest { zone: Some(Some(b"z")), ..WishesRequest::default() },
            recoverable: true,
            waits: false,
            request: Some(e164),
            called_from: None,
        }))
    };
    let join = |cmu| {
        Request::Unit(UnitRequest::Join {
            cmu,
            capacity: 10,
            zone: Some(b"z"),
            tags: &[],
            lease: LONG,
            machine: None,
        })
    };
    let scheduler = |request| Request::Scheduler { term: None, request };
    let epoch = |realm: &Realm, e164: &[u8]| realm.conference_called(e164).map_or(0, |one| one.epoch);
    let owner = |realm: &Realm, e164: &[u8]| {
        let owner = realm.conference_called(e164).and_then(|one| one.owner).and_then(|unit| realm.unit(unit));
        owner.map_or_else(Vec::new, |unit| unit.cmu.to_vec())
    };
    let ack = |realm: &Realm, now, e164| {
        let cmu = owner(realm, e164);
        let notice = AssignmentNotice { e164, cmu: &cmu, epoch: epoch(realm, e164) };
        Ok(conf::decide(realm, now, &Request::Unit(UnitRequest::Ack(notice)))?.events)
    };
    let set = |realm: &Realm, now, e164| {
        let cmu = owner(realm, e164);
        let set = Set { e164, cmu: &cmu, epoch: epoch(realm, e164), seq: 7, fields: &[b"f", b"v"] };
        Ok(conf::decide(realm, now, &Request::Unit(UnitRequest::Set(set)))?.events)
    };
    let ask = |request| {
        Box::new(move |realm: &Realm, now| Ok(conf::decide(realm, now, &request)?.events)) as Ask<'_, Realm>
    };
    let to_other = |realm: &Realm, now| {
        let request = scheduler(SchedulerRequest::Move { e164: b"2", to: None });
        Ok(conf::decide(realm, now, &request)?.events)
    };
    let realm = grown(
        Realm::open(conf::state::Settings::default(), 1000),
        1000,
        &[
            ask(join(b"10.0.0.1:1")),
            ask(create(b"1")),
            ask(create(b"2")),
            Box::new(|realm: &Realm, now| ack(realm, now, b"1")),
            Box::new(|realm: &Realm, now| ack(realm, now, b"2")),
            Box::new(|realm: &Realm, now| set(realm, now, b"1")),
            ask(join(b"10.0.0.2:1")),
            Box::new(to_other),
            ask(create(b"3")),
        ],
    );
    every_number_at_its_limit(&realm, |realm, now| {
        let report = Report {
            cmu: b"10.0.0.1:1",
            highest: (1 << 53) - 1,
            ended: vec![],
            starting: vec![],
            params: vec![],
            list: vec![(b"1", 1)],
        };
        let requests = [
            create(b"4"),
            join(b"10.0.0.3:1"),
            Request::Unit(UnitRequest::Beat { cmu: b"10.0.0.1:1", load: Some(i64::MAX) }),
            Request::Unit(UnitRequest::Report(report)),
            Request::Client(ClientRequest::Release { e164: b"1" }),
            scheduler(SchedulerRequest::Down { cmu: b"10.0.0.1:1" }),
            scheduler(SchedulerRequest::Restart { live: vec![b"10.0.0.2:1"] }),
            scheduler(SchedulerRequest::Recover { count: 10 }),
        ];
        let asked = requests.iter().map(|request| Ok(conf::decide(realm, now, request)?.events));
        asked.chain([ack(realm, now, b"3"), set(realm, now, b"1"), to_other(realm, now)]).collect()
    });
}

#[test]
fn numbers_of_a_book_hold_at_their_limits() {
    use account::request::{Changes, InstanceRequest, ManagerRequest, ModuleSettings};
    let names: Vec<String> = (0..5).map(|number| format!("p{number}")).collect();
    let name = |number: usize| names[number].as_bytes();
    let module = |module, instances| {
        let (weight, reserve) = (Some(2), Some(0));
        ManagerRequest::Module(ModuleSettings {
            module,
            department: b"d",
            instances,
            weight,
            reserve,
            ..ModuleSettings::default()
        })
    };
    let add = |from: usize, to: usize| {
        ManagerRequest::add(Some(b"m"), Tariff { quota: 5, steps: vec![] }, (from..to).map(name).collect())
    };
    let attach = |instance| ManagerRequest::Attach { module: b"m", instance };
    let holder = |book: &Book, number: usize| {
        let account = book.account_called(name(number));
        account.map_or_else(Vec::new, |account| book.instance_name(account.instance).to_vec())
    };
    let epoch = |book: &Book, number: usize| {
        let account = book.account_called(name(number));
        account.map_or(0, |account| account.login.as_ref().map_or(account.epoch, |login| login.epoch))
    };
    let manage = |book: &Book, now, request: &ManagerRequest<'_>| {
        Ok(account::decide(book, now, &request.clone().in_term(None))?.events)
    };
    let ask = |request| Box::new(move |book: &Book, now| manage(book, now, &request)) as Ask<'_, Book>;
    let login = |book: &Book, now| {
        let instance = holder(book, 0);
        let request =
            InstanceRequest::Login { account: name(0), instance: &instance, terminal: b"t", ttl: LONG };
        Ok(account::decide(book, now, &request.into())?.events)
    };
    let used = |book: &Book, now| {
        let request = InstanceRequest::Use { account: name(0), epoch: epoch(book, 0), count: 1 };
        Ok(account::decide(book, now, &request.into())?.events)
    };
    let turns = Some(vec![1 << 44, 1 << 45]);
    let book = grown(
        Book::open(account::Settings::default(), 1000),
        1000,
        &[
            ask(ManagerRequest::Configure(Changes { turns, ..Changes::default() })),
            ask(module(b"m", 2)),
            ask(module(b"n", 1)),
            ask(attach(b"a")),
            ask(attach(b"b")),
            ask(add(0, 4)),
            Box::new(login),
            Box::new(used),
            ask(ManagerRequest::Detach { module: b"m", instance: b"b", grace: LONG }),
        ],
    );
    every_number_at_its_limit(&book, |book, now| {
        let requests = [
            attach(b"b"),
            attach(b"c"),
            add(4, 5),
            module(b"o", 3),
            ManagerRequest::Freeze { account: name(1), on: true, until: None },
            ManagerRequest::Move { module: b"n", accounts: vec![name(2)] },
            ManagerRequest::Detach { module: b"m", instance: b"a", grace: 0 },
            ManagerRequest::Rebalance { dry_run: false, max_moves: 10 },
        ];
        let asked = requests.iter().map(|request| manage(book, now, request));
        asked.chain([login(book, now), used(book, now)]).collect()
    });
}
