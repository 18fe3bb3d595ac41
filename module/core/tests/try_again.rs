//! Requests while deadlines have passed that are not carried out: what they name has ended, and what may depend on other
//! deadlines is answered `TRYAGAIN`.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

use allot_core::account::request::{InstanceRequest, ManagerRequest, ModuleSettings};
use allot_core::account::{self, Book};
use allot_core::conf::request::{
    AssignmentNotice, ClientRequest, Create, SchedulerRequest, Set, UnitRequest,
};
use allot_core::conf::{self, Realm};
use allot_core::numpool::request::{Call, Changes, OfSwitch};
use allot_core::numpool::{self, Number, Pool};
use allot_core::seat::request::{Adjacent, Hold, Orphans, Pick, Replace, Wait, Wish};
use allot_core::seat::{self, Show};
use allot_core::shared::machine::Machine;
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;

/// A state whose deadlines are carried out only on request.
struct Bench<M> {
    state: M,
    now: i64,
}

impl<M: Machine> Bench<M> {
    fn new(state: M) -> Self {
        Self { state, now: 1000 }
    }

    /// Asks for something that is granted.
    fn ok(&mut self, request: &M::Request<'_>) -> M::Reply {
        self.state.prepare(request);
        let decision = self.state.decide_or_try_again(self.now, request).unwrap();
        decision.events.iter().for_each(|event| self.state.apply(self.now, event));
        decision.reply
    }

    /// The refusal of a request.
    fn refused(&mut self, request: &M::Request<'_>) -> (Code, String) {
        self.state.prepare(request);
        match self.state.decide_or_try_again(self.now, request) {
            Ok(_) => panic!("the request is not refused"),
            Err(refusal) => (refusal.code, refusal.text),
        }
    }

    fn code(&mut self, request: &M::Request<'_>) -> Code {
        self.refused(request).0
    }

    /// Carries out all deadlines that have passed.
    fn carry_out(&mut self) {
        while self.state.count_overdue(self.now, 1) > 0 {
            for event in self.state.due(self.now, 100) {
                self.state.apply(self.now, &event);
            }
        }
    }
}

fn token(token: &str) -> TokenChoice<'_> {
    TokenChoice { token: token.as_bytes(), chosen: true }
}

/// A hold of this many seats, until 2000.
fn hold<'a>(user: &'a str, count: u32, name: &'a str) -> Hold<'a> {
    Hold {
        user: user.as_bytes(),
        ttl: 1000,
        replace: None,
        exchange: vec![],
        token: token(name),
        wish: Wish {
            count,
            tier: None,
            areas: vec![],
            adjacent: Adjacent::Prefer,
            orphans: Orphans::Allow,
            flags: vec![],
            needs: vec![],
            preferred: vec![],
            from: None,
        },
    }
}

/// A show of this many seats in one row, in which a user may have two holds.
fn show(seats: u32) -> Bench<Show> {
    let plan = format!(
        r#"{{"limits":{{"holds_per_user":2}},"areas":[{{"id":"a","rows":[{{"label":"1","rank":1,"tier":"t","seats":"1-{seats}"}}]}}]}}"#
    );
    Bench::new(Show::open(&plan, 1000).unwrap())
}

#[test]
fn expired_hold_is_neither_confirmed_nor_extended() {
    use seat::Request;
    let mut show = show(10);
    show.ok(&Request::Hold(hold("ann", 2, "t1")));
    show.now = 2000;
    let exchange =
        Request::Exchange { token: b"t1", user: None, order: None, from: b"o", seats: vec![b"a-1-1"] };
    let replace = Hold { replace: Some(Replace { token: b"t1", other: false }), ..hold("ann", 2, "t2") };
    for request in [
        Request::Confirm { token: b"t1", user: None, order: None },
        exchange,
        Request::Extend { token: b"t1", ttl: 1000 },
        Request::Release { token: b"t1", seats: None, into: None },
        Request::Hold(replace),
    ] {
        assert_eq!(show.code(&request), Code::NotFound, "{request:?}");
    }
    let again = Request::Hold(hold("ann", 2, "t1"));
    assert_eq!(show.code(&again), Code::TryAgain, "the hold of this token is gone a moment later");
    show.carry_out();
    show.ok(&again);
}

#[test]
fn request_that_overdue_holds_refuse_is_to_be_sent_again() {
    use seat::Request;
    let mut show = show(1200);
    let names: Vec<String> = (1..=1200).map(|seat| format!("a-1-{seat}")).collect();
    let pick = |name: &'static str, seat| {
        let (user, token) = (b"cid", token(name));
        Request::Pick(Pick {
            user,
            ttl: 1000,
            token,
            orphans: None,
            from: None,
            seats: vec![seat],
            exchange: vec![],
        })
    };
    for (seat, ttl) in names.iter().zip(500..) {
        let (user, token, seats) = (seat.as_bytes(), token(seat), vec![seat.as_bytes()]);
        show.ok(&Request::Pick(Pick {
            user,
            ttl,
            token,
            orphans: None,
            from: None,
            seats,
            exchange: vec![],
        }));
    }
    show.ok(&Request::Confirm { token: b"a-1-1", user: None, order: None });
    let sold_out = Request::Hold(hold("ann", 1, "t1"));
    assert_eq!(show.ok(&sold_out), seat::Reply::None);
    show.now = 3000;
    let many = "more than 1000 due changes are being carried out: send the request again".to_owned();
    assert_eq!(show.refused(&sold_out), (Code::TryAgain, many));
    for event in show.state.due(show.now, 998) {
        show.state.apply(show.now, &event);
    }
    show.ok(&sold_out);
    let (code, text) = show.refused(&pick("t3", b"a-1-1200"));
    assert_eq!((code, &text[..25]), (Code::TryAgain, "201 due changes are being"), "{text}");
    // What is refused for another reason is refused for good.
    assert_eq!(show.code(&pick("t3", b"a-1-1201")), Code::NotFound);
    assert_eq!(show.code(&Request::Hold(hold("bob", 0, "t2"))), Code::Err);
    show.carry_out();
    show.ok(&pick("t3", b"a-1-1200"));
    assert_eq!(show.code(&pick("t4", b"a-1-1")), Code::BadState, "with nothing overdue the answer is final");
}

#[test]
fn limit_of_a_user_does_not_count_overdue_holds_for_good() {
    use seat::Request;
    let mut show = show(10);
    show.ok(&Request::Hold(hold("ann", 1, "t1")));
    show.ok(&Request::Hold(hold("ann", 1, "t2")));
    let third = Request::Hold(hold("ann", 1, "t3"));
    assert_eq!(show.code(&third), Code::Limit);
    show.now = 2000;
    assert_eq!(show.code(&third), Code::TryAgain);
    show.carry_out();
    show.ok(&third);
}

#[test]
fn overdue_block_has_ended_where_a_request_names_it() {
    use seat::Request;
    let mut show = show(10);
    let block = || Request::Block {
        name: Some(b"b"),
        until: Some(2000),
        per_user: None,
        seats: vec![b"a-1-3", b"a-1-4"],
    };
    show.ok(&block());
    show.now = 2000;
    let from = Hold { wish: Wish { from: Some(b"b"), ..hold("ann", 1, "t1").wish }, ..hold("ann", 1, "t1") };
    assert_eq!(show.code(&Request::Hold(from.clone())), Code::NotFound);
    let wait = Wait { hold: from, offer: 1000, priority: 0 };
    assert_eq!(show.code(&Request::Wait(wait)), Code::NotFound);
    assert_eq!(show.code(&Request::EndBlock(b"b")), Code::NotFound);
    assert_eq!(show.code(&Request::Unblock(vec![b"a-1-3"])), Code::TryAgain);
    let more = Request::Block { name: Some(b"b"), until: Some(2000), per_user: None, seats: vec![b"a-1-5"] };
    assert_eq!(show.code(&more), Code::Err, "its end has passed");
    let seats = Request::Block { name: None, until: None, per_user: None, seats: vec![b"a-1-3"] };
    assert_eq!(show.code(&seats), Code::TryAgain);
    show.carry_out();
    show.ok(&seats);
}

#[test]
fn overdue_wait_has_ended_where_a_request_names_it() {
    use seat::Request;
    let mut show = show(1);
    show.ok(&Request::Hold(Hold { ttl: 9000, ..hold("ann", 1, "t1") }));
    let wait = Request::Wait(Wait { hold: hold("bob", 1, "t2"), offer: 1000, priority: 0 });
    show.ok(&wait);
    show.now = 2000;
    assert_eq!(show.code(&Request::Unwait(b"t2")), Code::NotFound);
    assert_eq!(show.code(&wait), Code::TryAgain);
    // A user who can wait does not need to try again.
    show.ok(&Request::Wait(Wait { hold: hold("cid", 1, "t3"), offer: 1000, priority: 0 }));
    show.carry_out();
    show.ok(&wait);
}

fn n(number: &str) -> Number {
    Number::parse(number.as_bytes()).unwrap()
}

fn any(lease: &str) -> Call<'_> {
    Call {
        number: None,
        ttl: Some(1000),
        endless: false,
        holder: None,
        lease: token(lease),
        switch: Some(b"sw"),
        peer: None,
        prefixes: &[],
        pick: None,
        random: 0,
    }
}

/// A pool whose two numbers are registered: one until 2000, the other for good.
fn pool() -> Bench<Pool> {
    use numpool::Request;
    let mut pool = Bench::new(Pool::new(numpool::Settings::default(), 1000));
    pool.ok(&Request::Add(&[n("1"), n("2")]));
    pool.ok(&Request::Reg { missing: false, numbers: &[n("1")], ttl: Some(1000), switch: Some(b"sw") });
    pool.ok(&Request::Reg { missing: false, numbers: &[n("2")], ttl: None, switch: Some(b"sw") });
    pool
}

#[test]
fn expired_lease_is_neither_renewed_nor_hung_up() {
    use numpool::{Reply, Request};
    let mut pool = pool();
    pool.ok(&Request::Call(Call { number: Some(n("2")), ..any("a") }));
    pool.now = 2000;
    let renew = Request::Renew { number: n("2"), lease: b"a", ttl: 1000 };
    assert_eq!(pool.code(&renew), Code::NotOwner);
    let hang_up = |lease| Request::HangUp { number: n("2"), lease, cooldown: None, cause: None };
    assert_eq!(pool.ok(&hang_up(Some(b"a"))), Reply::Integer(0));
    assert_eq!(pool.code(&hang_up(None)), Code::TryAgain);
    let reconcile =
        Request::OfSwitch(OfSwitch::Reconcile { switch: Some(b"sw"), before: None, leases: &[b"a"] });
    let Reply::Reconciled(outcome) = pool.ok(&reconcile) else { panic!("a reconciliation") };
    assert_eq!((outcome.kept, outcome.freed, outcome.unknown.len()), (0, 0, 1));
    let cooldown = Request::Configure(Changes { cooldown: Some(500), ..Changes::default() });
    assert_eq!(pool.code(&cooldown), Code::TryAgain, "the cool-down after the lease is the old one");
    for call in [any("a"), any("b"), Call { number: Some(n("2")), ..any("b") }] {
        assert_eq!(pool.code(&Request::Call(call)), Code::TryAgain, "{call:?}");
    }
    pool.carry_out();
    pool.ok(&Request::Call(any("a")));
    pool.ok(&cooldown);
}

#[test]
fn lapsed_registration_begins_anew_and_does_not_go_on() {
    use numpool::{Event, Reply, Request};
    let mut pool = pool();
    pool.now = 2000;
    assert_eq!(pool.ok(&Request::Unreg { numbers: &[n("1")], missing: false }), Reply::Integer(0));
    assert_eq!(pool.code(&Request::Call(Call { number: Some(n("1")), ..any("a") })), Code::TryAgain);
    let leave = pool.state.decide_or_try_again(pool.now, &Request::OfSwitch(OfSwitch::Unreg(b"sw"))).unwrap();
    assert_eq!(leave.reply, Reply::Integer(1), "one of two has lapsed");
    let (numbers, switch) = ([n("2")].into_iter().collect(), Some(b"sw"[..].into()));
    assert_eq!(leave.events[..], [Event::Unregistered { numbers, switch }]);
    let register =
        Request::Reg { missing: false, numbers: &[n("1"), n("2")], ttl: None, switch: Some(b"sw") };
    let registered = pool.state.decide_or_try_again(pool.now, &register).unwrap();
    assert_eq!(registered.reply, Reply::Integer(1), "it comes up again");
    assert_eq!(registered.events[0], Event::Lapsed([n("1")].into_iter().collect()));
    assert_eq!(pool.ok(&register), Reply::Integer(1));
    pool.ok(&Request::Call(Call { number: Some(n("1")), ..any("a") }));
    pool.state.check().unwrap();
}

#[test]
fn realm_carries_out_a_deadline_before_requests_about_its_unit_or_conference() {
    use conf::Request;
    use conf::request::WishesRequest;
    let mut realm = Bench::new(Realm::open(conf::state::Settings::default(), 1000));
    let join = || {
        Request::Unit(UnitRequest::Join {
            cmu: b"u:1",
            capacity: 9,
            zone: None,
            tags: &[],
            lease: 1000,
            machine: None,
        })
    };
    realm.ok(&join());
    let create = |e164| {
        let (size, licences, priority, wishes, request) = (1, 1, 0, WishesRequest::default(), None);
        let (start, end, recoverable, called_from) = (None, Some(1500), true, None);
        let create = Create {
            e164,
            start,
            end,
            size,
            licences,
            priority,
            wishes,
            recoverable,
            waits: false,
            request,
            called_from,
        };
        Request::Client(ClientRequest::Create(create))
    };
    realm.ok(&create(b"1"));
    let epoch = realm.state.conference_called(b"1").unwrap().epoch;
    let notice = AssignmentNotice { e164: b"1", cmu: b"u:1", epoch };
    realm.ok(&Request::Unit(UnitRequest::Ack(notice)));
    realm.now = 2000;
    let set = Set { e164: b"1", cmu: b"u:1", epoch, seq: 1, fields: &[b"f", b"v"] };
    let term = None;
    for request in [
        join(),
        create(b"1"),
        Request::Unit(UnitRequest::Beat { cmu: b"u:1", load: None }),
        Request::Unit(UnitRequest::Set(set)),
        Request::Client(ClientRequest::Extend { e164: b"1", end: 9000, dry_run: false }),
        Request::Scheduler { term, request: SchedulerRequest::Down { cmu: b"u:1" } },
    ] {
        assert_eq!(realm.code(&request), Code::TryAgain, "{request:?}");
    }
    realm.carry_out();
    realm.ok(&join());
}

#[test]
fn place_that_is_kept_no_longer_is_not_taken_again() {
    let mut book = Bench::new(Book::open(account::Settings::default(), 1000));
    let ask = |request: ManagerRequest<'static>| request.in_term(None);
    let module = ModuleSettings { module: b"m", department: b"d", instances: 1, ..ModuleSettings::default() };
    book.ok(&ask(ManagerRequest::Module(module)));
    let attach = || ask(ManagerRequest::Attach { module: b"m", instance: b"i" });
    let detach = || ask(ManagerRequest::Detach { module: b"m", instance: b"i", grace: 1000 });
    book.ok(&attach());
    book.ok(&detach());
    let pick = InstanceRequest::Pick { module: b"m", instance: b"i", count: 1 }.into();
    book.ok(&pick);
    book.now = 2000;
    assert_eq!(book.code(&attach()), Code::TryAgain);
    assert_eq!(book.code(&detach()), Code::TryAgain);
    assert_eq!(book.code(&pick), Code::TryAgain, "a login that ends may leave it an account");
    book.carry_out();
    book.ok(&attach());
}
