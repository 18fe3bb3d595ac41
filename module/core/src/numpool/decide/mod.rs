//! Decides requests: picks numbers, checks every limit, and changes nothing.

mod due;
mod held;
mod of_switch;
mod pick;

use self::due::deadline;
pub use self::due::decide_due;
pub use self::held::MISSED_FOR;
pub use self::of_switch::MAX_AT_ONCE;
use self::of_switch::decide_of_switch;
use super::causes::{MAX_CAUSES, MAX_WORD, Rule, is_cause};
use super::cells::{Cell, Trigger, cell};
use super::directory::MAX_NUMBERS;
use super::event::{Called, Cause, Event, Numbers, Rest, RestReason, Suspension, Word, each_some};
use super::heartbeats::MAX_HEARTBEATS;
use super::model::last_numbers::MAX_PEERS;
use super::number::Number;
pub use super::outcome::{Alive, Decision, LeaseRecord, Listed, Reconciled, Reply};
use super::record::{LATEST, Place};
use super::request::{Call, Changes, MAX_PREFIXES, Policy, Request};
use super::settings::{Cap, Days, MAX_CAPS, MAX_COUNT, Settings};
use super::state::Pool;
use crate::shared::decision::{self, decided, unchanged};
use crate::shared::invariant::Expected;
use crate::shared::refusal::{Code, Refusal, refuse, try_again};
use crate::shared::text::quoted;
use crate::shared::token::{MAX_TTL, check_identifier, check_time, check_ttl};
use crate::shared::{Bytes, Millis};
use hashbrown::HashSet;
use smallvec::smallvec;

type Decided = decision::Decided<Event, Reply>;

/// Events of these numbers, and their count.
#[allow(clippy::unnecessary_wraps, reason = "the last word of functions that may refuse")]
fn counted(numbers: Numbers, event: impl Fn(Numbers) -> Event) -> Decided {
    let reply = Reply::Integer(numbers.len() as i64);
    Ok(Decision { events: each_some(numbers, event), reply })
}

/// Decides a request at `now`, which is not before the last time applied. A lease or a registration that the request
/// names has ended once its deadline has passed, whether or not that was carried out.
///
/// # Errors
/// A refusal, with its error code and text.
pub fn decide(pool: &Pool, now: Millis, request: &Request<'_>) -> Decided {
    if pool.draining > 0 && request.named().iter().any(|&number| pool.is_gone(number, now)) {
        return try_again(|_| 1);
    }
    match request {
        Request::Add(numbers) => decide_add(pool, numbers),
        Request::Del { numbers, drain } => decide_del(pool, numbers, *drain),
        Request::Reg { numbers, ttl, switch, missing } => {
            decide_reg(pool, now, numbers, *ttl, *switch, *missing)
        }
        Request::Unreg { numbers, missing } => decide_unreg(pool, now, numbers, *missing),
        Request::Suspend { numbers, cause, ttl, missing } => {
            decide_suspend(pool, now, numbers, *cause, *ttl, *missing)
        }
        Request::Resume { numbers, missing } => {
            let list = InPool::of(pool, numbers, |_, id| pool.suspension_at(id, now).is_some());
            let reply = list.reply(list.kept.len() as i64, *missing)?;
            let uses = pool.uses_of_joining();
            Ok(Decision { events: each_some(list.kept, |numbers| Event::Resumed { numbers, uses }), reply })
        }
        Request::Call(call) => decide_call(pool, now, call),
        Request::HangUp { number, lease, cooldown, cause } => {
            decide_hangup(pool, now, *number, *lease, *cooldown, *cause)
        }
        Request::TakeBack { number, lease } => {
            if !carries(pool, now, *number, lease) {
                return unchanged(Reply::Integer(0));
            }
            let (numbers, cause) = (smallvec![*number], Cause::TakenBack);
            let ended = Event::Ended { numbers, cool_until: None, cause, word: None, quarantine: None };
            decided(ended, Reply::Integer(1))
        }
        Request::Renew { number, lease, ttl } => decide_renew(pool, now, *number, lease, *ttl),
        Request::Beat { switch, ttl } => decide_beat(pool, now, switch, *ttl),
        Request::OfSwitch(request) => decide_of_switch(pool, now, request),
        Request::Configure(changes) => {
            // The cool-down after a lease is the one that holds when the lease ends.
            let ends = [pool.leases.deadlines(), &pool.heartbeats];
            if changes.cooldown.is_some()
                && ends.iter().any(|ends| ends.earliest().is_some_and(|due| due <= now))
            {
                return try_again(|limit| ends.iter().map(|ends| ends.count_passed(now, limit)).sum());
            }
            let settings = configured(&pool.settings, changes)?;
            if settings == pool.settings {
                return unchanged(Reply::Ok);
            }
            decided(Event::Configured(settings), Reply::Ok)
        }
        Request::Caps { number, caps } => decide_caps(pool, *number, caps),
        Request::Cause { word, rule } => decide_cause(pool, word, rule),
    }
}

/// Settings with changes.
///
/// # Errors
/// `ERR` for a time of more than ten years.
pub fn configured(settings: &Settings, changes: &Changes) -> Result<Settings, Refusal> {
    let times = [("LEASE", changes.lease), ("COOLDOWN", changes.cooldown), ("REGTTL", changes.regttl)];
    for (what, time) in times.into_iter().chain([("PEERTTL", changes.peerttl)]) {
        time.map_or(Ok(()), |time| check_span(what, time))?;
    }
    let in_range = |peers: &i64| (0..=MAX_PEERS.into()).contains(peers);
    if let Some(peers) = changes.peers.filter(|peers| !in_range(peers)) {
        return refuse(Code::Err, format!("PEERS must be 0 to {MAX_PEERS}, not {peers}"));
    }
    changes.caps.as_deref().map_or(Ok(()), check_caps)?;
    let rate = changes.rate.map(|rate| Some(rate).filter(|rate| rate.count > 0));
    if let Some(rate) = rate.flatten().filter(|rate| !rate.is_sound_rate()) {
        return refuse(Code::Err, out_of_range("RATE", rate));
    }
    if let Some(Days { start, length }) = changes.days.filter(|days| !days.is_sound()) {
        let text = format!(
            "DAYSTART: a day begins at 0 to {LATEST} ms and has 1 to {MAX_TTL} ms, not {start} and {length}"
        );
        return refuse(Code::Err, text);
    }
    Ok(Settings {
        lease: changes.lease.unwrap_or(settings.lease),
        cooldown: changes.cooldown.unwrap_or(settings.cooldown),
        regttl: changes.regttl.unwrap_or(settings.regttl),
        pick: changes.pick.unwrap_or(settings.pick),
        events: changes.events.unwrap_or(settings.events),
        caps: changes.caps.as_ref().unwrap_or(&settings.caps).clone(),
        rate: rate.unwrap_or(settings.rate),
        peers: changes.peers.map_or(settings.peers, |peers| peers as u32),
        peerttl: changes.peerttl.unwrap_or(settings.peerttl),
        days: changes.days.unwrap_or(settings.days),
    })
}

fn check_caps(caps: &[Cap]) -> Result<(), Refusal> {
    if caps.len() > MAX_CAPS {
        return refuse(Code::Err, format!("there are at most {MAX_CAPS} caps, not {}", caps.len()));
    }
    let wrong = caps.iter().find(|cap| !cap.is_sound());
    wrong.map_or(Ok(()), |&cap| refuse(Code::Err, out_of_range("CAPS", cap)))
}

fn out_of_range(what: &str, Cap { window, count }: Cap) -> String {
    format!("{what}: a window is 1 to {MAX_TTL} ms with 1 to {MAX_COUNT} calls, not {window} ms with {count}")
}

fn decide_caps(pool: &Pool, number: Number, caps: &[Cap]) -> Decided {
    check_caps(caps)?;
    let Some(id) = pool.directory.find(number) else { return not_found(number) };
    if pool.own_caps.get(id).unwrap_or_default() == caps {
        return unchanged(Reply::Ok);
    }
    decided(Event::Capped { number, caps: caps.to_vec() }, Reply::Ok)
}

/// A time that may be 0.
fn check_span(what: &str, time: Millis) -> Result<(), Refusal> {
    if (0..=MAX_TTL).contains(&time) {
        return Ok(());
    }
    refuse(Code::Err, format!("{what} must be 0 to {MAX_TTL} ms, not {time}"))
}

/// The numbers of a request for which `keep` holds, each once, in their order.
fn each_once(numbers: &[Number], mut keep: impl FnMut(Number) -> bool) -> Numbers {
    if let [number] = *numbers {
        return if keep(number) { smallvec![number] } else { Numbers::new() };
    }
    let mut seen = HashSet::with_capacity(numbers.len());
    numbers.iter().copied().filter(|&number| seen.insert(number) && keep(number)).collect()
}

fn decide_add(pool: &Pool, numbers: &[Number]) -> Decided {
    let mut fresh = 0;
    let added = each_once(numbers, |number| match pool.directory.find(number) {
        None => {
            fresh += 1;
            true
        }
        Some(id) => pool.is_draining(id),
    });
    if fresh > MAX_NUMBERS - pool.len() {
        return refuse(
            Code::Limit,
            format!(
                "a pool has at most {MAX_NUMBERS} numbers; this one has {} and would get {fresh} more",
                pool.len()
            ),
        );
    }
    counted(added, Event::Added)
}

fn decide_del(pool: &Pool, numbers: &[Number], drain: bool) -> Decided {
    if !drain {
        return counted(each_once(numbers, |number| pool.directory.find(number).is_some()), Event::Deleted);
    }
    let mut draining = Numbers::new();
    let deleted = each_once(numbers, |number| {
        let Some(id) = pool.directory.find(number) else { return false };
        let record = pool.directory.get(id);
        if record.place == Place::Call {
            draining.push(number);
        }
        !record.state().is_busy()
    });
    let count = deleted.len() + draining.len();
    let mut events = each_some(deleted, Event::Deleted);
    if !draining.is_empty() {
        events.push(Event::Draining(draining));
    }
    Ok(Decision { events, reply: Reply::Integer(count as i64) })
}

/// The numbers of a list that are in the pool and for which `keep` holds, each once, in their order. `keep` gets the id
/// of each number that is in the pool.
struct InPool {
    kept: Numbers,
    missing: Numbers,
    found: usize,
}

impl InPool {
    fn of(pool: &Pool, numbers: &[Number], mut keep: impl FnMut(Number, u32) -> bool) -> Self {
        let (mut missing, mut found) = (Numbers::new(), 0);
        let kept = each_once(numbers, |number| {
            let Some(id) = pool.directory.find(number) else {
                missing.push(number);
                return false;
            };
            found += 1;
            keep(number, id)
        });
        Self { kept, missing, found }
    }

    /// The reply to a list of which `done` numbers changed: a record that names the missing numbers, if it is wanted.
    ///
    /// # Errors
    /// `NOTFOUND` if none of the numbers is in the pool and no record is wanted.
    fn reply(&self, done: i64, names_missing: bool) -> Result<Reply, Refusal> {
        if names_missing {
            return Ok(Reply::Listed(Listed { done, missing: self.missing.clone() }));
        }
        match self.missing[..] {
            [number] if self.found == 0 => not_found(number),
            [first, .., last] if self.found == 0 => {
                let text = format!("none of the numbers {first} to {last} is in the pool");
                refuse(Code::NotFound, text)
            }
            _ => Ok(Reply::Integer(done)),
        }
    }
}

fn decide_reg(
    pool: &Pool,
    now: Millis,
    numbers: &[Number],
    ttl: Option<Millis>,
    switch: Option<&[u8]>,
    names_missing: bool,
) -> Decided {
    ttl.map_or(Ok(()), check_ttl)?;
    switch.map_or(Ok(()), |switch| check_identifier("SWITCH", switch))?;
    let until = deadline(now, ttl, pool.settings.regttl);
    let (mut came_up, mut lapsed) = (0, Numbers::new());
    let list = InPool::of(pool, numbers, |number, id| {
        if pool.has_lapsed(id, now) {
            lapsed.push(number);
        } else if pool.directory.get(id).state().is_up() {
            // The same again changes nothing.
            let by = pool.switches.of(id);
            let same = pool.registrations.get(id) == until && pool.switches.name(by) == switch;
            return !same || pool.sliced.unregisters(by);
        }
        came_up += 1;
        true
    });
    let reply = list.reply(came_up, names_missing)?;
    if list.kept.is_empty() {
        return unchanged(reply);
    }
    let mut events = each_some(lapsed, Event::Lapsed);
    let (switch, uses) =
        (switch.map(Bytes::from_slice), if came_up > 0 { pool.uses_of_joining() } else { 0 });
    events.push(Event::Registered { numbers: list.kept, until, switch, uses });
    Ok(Decision { events, reply })
}

fn decide_unreg(pool: &Pool, now: Millis, numbers: &[Number], names_missing: bool) -> Decided {
    let list = InPool::of(pool, numbers, |_, id| {
        pool.directory.get(id).state().is_up() && !pool.has_lapsed(id, now)
    });
    let reply = list.reply(list.kept.len() as i64, names_missing)?;
    Ok(Decision {
        events: each_some(list.kept, |numbers| Event::Unregistered { numbers, switch: None }),
        reply,
    })
}

fn decide_suspend(
    pool: &Pool,
    now: Millis,
    numbers: &[Number],
    cause: Option<&[u8]>,
    ttl: Option<Millis>,
    names_missing: bool,
) -> Decided {
    cause.map_or(Ok(()), check_cause)?;
    ttl.map_or(Ok(()), |time| check_time("FOR", time))?;
    let cause = cause.map(|word| Word(Bytes::from_slice(word)));
    let suspension = Suspension { cause, until: ttl.map(|ttl| now.saturating_add(ttl)) };
    let mut fresh = 0;
    let list = InPool::of(pool, numbers, |_, id| {
        let before = pool.suspension_at(id, now);
        fresh += i64::from(before.is_none());
        before.as_ref() != Some(&suspension)
    });
    let reply = list.reply(fresh, names_missing)?;
    let event = |numbers| Event::Suspended { numbers, suspension: suspension.clone() };
    Ok(Decision { events: each_some(list.kept, event), reply })
}

fn decide_call(pool: &Pool, now: Millis, call: &Call<'_>) -> Decided {
    check_identifier("LEASE", call.lease.token)?;
    call.switch.map_or(Ok(()), |switch| check_identifier("SWITCH", switch))?;
    call.peer.map_or(Ok(()), |peer| check_identifier("PEER", peer))?;
    call.holder.map_or(Ok(()), |holder| check_identifier("the holder", holder))?;
    call.ttl.map_or(Ok(()), check_ttl)?;
    if call.number.is_some() && (!call.prefixes.is_empty() || call.pick.is_some()) {
        return refuse(Code::Err, "PREFIX and PICK choose a number; they cannot go with one that is named");
    }
    if call.prefixes.len() > MAX_PREFIXES {
        let count = call.prefixes.len();
        return refuse(Code::Err, format!("PREFIX takes at most {MAX_PREFIXES} prefixes, not {count}"));
    }
    if let Some(lease) = pool.leases.find(call.lease.token) {
        return decide_repeated_call(pool, now, call, lease);
    }
    let id = if let Some(number) = call.number {
        callable(pool, now, number)?
    } else if !pool.are_sorted_for(call) {
        return refuse(
            Code::TryAgain,
            "the index of the pool's free numbers is being built: send the request again",
        );
    } else {
        match pool.pick(call, now) {
            Some(id) => id,
            None => return unchanged(Reply::None),
        }
    };
    if let Some(until) = pool.rate_until(now) {
        let text = format!("the pool has begun as many calls as its RATE allows until {until}");
        return refuse(Code::Limit, text);
    }
    let number = pool.number(id);
    // A number that somebody else holds is not the switch's that registered it.
    let registered_by = || pool.switches.name(pool.switches.of(id)).filter(|_| call.holder.is_none());
    let switch = call.switch.or_else(registered_by);
    // A switch that is alive keeps the call.
    let is_alive = |switch| call.holder.is_none() && pool.alive_until(switch, now).is_some();
    let is_kept = call.endless || switch.is_some_and(is_alive);
    let until = deadline(now, call.ttl, if is_kept { 0 } else { pool.settings.lease });
    let (token, switch) = (Bytes::from_slice(call.lease.token), switch.map(Bytes::from_slice));
    let (peer, holder) = (call.peer.map(Bytes::from_slice), call.holder.map(Bytes::from_slice));
    let record = LeaseRecord { number, token: token.clone(), until };
    let is_by_use = call.number.is_none() && call.pick.unwrap_or(pool.settings.pick) == Policy::LeastUsed;
    let least_uses = pool.least_free_uses().filter(|_| is_by_use);
    let called = Called { number, token, until, switch, peer, holder, least_uses };
    decided(Event::Called(called), Reply::Lease(record))
}

/// The same record again, for a caller that lost the first reply.
fn decide_repeated_call(pool: &Pool, now: Millis, call: &Call<'_>, id: u32) -> Decided {
    let Some(lease) = pool.leases.get(id).expected("a lease that is found by its token is live") else {
        return unchanged(Reply::None);
    };
    if pool.has_expired(id, now) {
        return refuse(Code::Exists, format!("lease {} has expired", quoted(&lease.token)));
    }
    let number = pool.number(lease.number);
    if call.number.is_some_and(|wanted| wanted != number) || !call.lease.chosen {
        return refuse(Code::Exists, format!("lease {} is live on number {number}", quoted(&lease.token)));
    }
    let token = lease.token.clone();
    unchanged(Reply::Lease(LeaseRecord { number, token, until: pool.leases.until(id) }))
}

/// The id of a number that can be called.
fn callable(pool: &Pool, now: Millis, number: Number) -> Result<u32, Refusal> {
    let Some(id) = pool.directory.find(number) else { return not_found(number) };
    allowed(pool, number, Trigger::Call)?;
    if pool.has_lapsed(id, now) {
        return refuse(Code::BadState, format!("the registration of number {number} has lapsed"));
    }
    if let Some(Suspension { cause, until }) = pool.suspensions.get(id) {
        let how = if cause.is_some() { "in quarantine" } else { "suspended" };
        let end = until.map_or("NUMPOOL.RESUME".to_owned(), |until| until.to_string());
        return refuse(Code::BadState, format!("number {number} is idle+up but {how} until {end}"));
    }
    let Some(Rest { until, reason }) = pool.rest_of(id) else { return Ok(id) };
    let (code, text) = match reason {
        RestReason::CoolDown => (Code::BadState, "is idle+up but cools down until"),
        RestReason::Limit => (Code::Limit, "has begun as many calls as its caps allow until"),
    };
    refuse(code, format!("number {number} {text} {until}"))
}

/// Whether a number carries the call of this lease. A number that is not in the pool carries no call.
fn carries(pool: &Pool, now: Millis, number: Number, token: &[u8]) -> bool {
    let Some(id) = pool.directory.find(number) else { return false };
    let lease = pool.directory.get(id).lease();
    let is_same = pool.leases.get(lease).is_some_and(|live| live.token[..] == *token);
    is_same && !pool.has_expired(lease, now)
}

fn decide_hangup(
    pool: &Pool,
    now: Millis,
    number: Number,
    token: Option<&[u8]>,
    cooldown: Option<Millis>,
    cause: Option<&[u8]>,
) -> Decided {
    cooldown.map_or(Ok(()), |cooldown| check_span("COOLDOWN", cooldown))?;
    cause.map_or(Ok(()), check_cause)?;
    match token {
        None => {
            allowed(pool, number, Trigger::HangUp)?;
            let lease = pool.directory.find(number).map(|id| pool.directory.get(id).lease());
            if lease.is_some_and(|lease| pool.has_expired(lease, now)) {
                return refuse(Code::BadState, format!("the lease of number {number} has expired"));
            }
        }
        Some(token) => {
            check_identifier("LEASE", token)?;
            // A number that carries a call can be hung up.
            if !carries(pool, now, number, token) {
                return unchanged(Reply::Integer(0));
            }
        }
    }
    let cool_until = deadline(
        now,
        cooldown.filter(|&cooldown| cooldown > 0),
        match cooldown {
            Some(_) => 0,
            None => pool.settings.cooldown,
        },
    );
    // A cause may send the number into quarantine.
    let quarantine = cause.and_then(|word| {
        let id = pool.directory.find(number).filter(|&id| !pool.is_draining(id))?;
        pool.quarantine_until(id, word, now)
    });
    let word = cause.map(|word| Word(Bytes::from_slice(word)));
    let (numbers, cause) = (smallvec![number], Cause::HungUp);
    let event = Event::Ended { numbers, cool_until, cause, word, quarantine };
    decided(event, Reply::Integer(1))
}

fn check_cause(word: &[u8]) -> Result<(), Refusal> {
    if is_cause(word) {
        return Ok(());
    }
    let text = quoted(word);
    refuse(Code::Err, format!("cause {text} is not 1 to {MAX_WORD} letters, digits, '-', '_' or '.'"))
}

fn decide_cause(pool: &Pool, word: &[u8], rule: &Rule) -> Decided {
    check_cause(word)?;
    let wanted = (rule.cooldown != 0).then_some(*rule);
    if wanted.is_some_and(|rule| !rule.is_sound()) {
        let text = format!(
            "COOLDOWN is 0 to {MAX_TTL} ms, AFTER 1 to {MAX_COUNT}, WITHIN 1 to {MAX_TTL} ms; not {}, {} and {}",
            rule.cooldown, rule.after, rule.within
        );
        return refuse(Code::Err, text);
    }
    if pool.causes.find(word).and_then(|cause| pool.causes.rule(cause)) == wanted {
        return unchanged(Reply::Ok);
    }
    if !pool.causes.has_room(word) {
        return refuse(Code::Limit, format!("a pool has at most {MAX_CAUSES} causes"));
    }
    decided(Event::Ruled { word: Word(Bytes::from_slice(word)), rule: wanted }, Reply::Ok)
}

fn decide_renew(pool: &Pool, now: Millis, number: Number, token: &[u8], ttl: Millis) -> Decided {
    check_identifier("LEASE", token)?;
    check_ttl(ttl)?;
    if pool.directory.find(number).is_none() {
        return not_found(number);
    }
    if !carries(pool, now, number, token) {
        let text = format!("lease {} is not the live one of number {number}", quoted(token));
        return refuse(Code::NotOwner, text);
    }
    let until = now.saturating_add(ttl);
    decided(Event::Renewed { number, until }, Reply::Integer(until))
}

fn decide_beat(pool: &Pool, now: Millis, switch: &[u8], ttl: Millis) -> Decided {
    check_identifier("SWITCH", switch)?;
    check_ttl(ttl)?;
    let id = pool.switches.find(switch);
    match id.and_then(|id| pool.heartbeats.get(id)) {
        // Its calls are over, and are not ended yet.
        Some(until) if until <= now => return try_again(|limit| pool.heartbeats.count_passed(now, limit)),
        None if pool.heartbeats.len() >= MAX_HEARTBEATS => {
            let text = format!("a pool keeps the deadlines of at most {MAX_HEARTBEATS} switches");
            return refuse(Code::Limit, text);
        }
        Some(_) | None => {}
    }
    let until = now.saturating_add(ttl);
    let calls = id.map_or(0, |id| pool.leases.list_of(id).len());
    decided(Event::Beat { switch: Bytes::from_slice(switch), until }, Reply::Alive(Alive { until, calls }))
}

/// Refuses an event that the table refuses.
fn allowed(pool: &Pool, number: Number, trigger: Trigger) -> Result<(), Refusal> {
    let state = pool.state_of(number);
    match cell(state, trigger) {
        Cell::To(..) | Cell::Same => Ok(()),
        Cell::NotFound => not_found(number),
        Cell::BadState => {
            let wanted = if trigger == Trigger::Call { "idle+up" } else { "busy" };
            refuse(Code::BadState, format!("number {number} is {}, not {wanted}", state.word()))
        }
    }
}

fn not_found<T>(number: Number) -> Result<T, Refusal> {
    refuse(Code::NotFound, format!("number {number} is not in the pool"))
}
