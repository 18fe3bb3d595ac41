//! The `NUMPOOL.*` commands that change a pool: they read the arguments, have the state machine decide, and reply.

use allot_core::numpool::cells::State;
use allot_core::numpool::decide::{Decision, MAX_AT_ONCE, configured};
use allot_core::numpool::event::Numbers;
use allot_core::numpool::request::{Cap, Changes, DAY, Days, OfSwitch, Policy, Request, Rule};
use allot_core::numpool::settings::MAX_COUNT;
use allot_core::numpool::waiting::{is_try_again, is_worth_waiting};
use allot_core::numpool::{Event, Number, Pool, Reply, Settings, request};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;
use allot_core::shared::token::TokenChoice;

use super::counters;
use super::waiting::Wait;
use crate::engine::argument::{Argument, LISTED_AT_ONCE};
use crate::engine::step::{
    Effects, Step, answer, answer_or_create, change, change_within, count_refused, forget_waiter,
};
use crate::engine::word::integer;
use crate::engine::{Call, Done, config, outbox, token, waiting};
use crate::ffi::{Context, KeyName};

/// `NUMPOOL.ADD key number [number ...]`
pub(super) fn add(call: &Call<'_>, [_, numbers]: &[Argument<'_>; 2]) -> Done {
    answer_or_create::<Pool>(call, &Event::Created(Settings::default()), &Request::Add(&all(numbers)?))
}

/// `NUMPOOL.DEL key number [number ...] [DRAIN]`
pub(super) fn del(call: &Call<'_>, [_, numbers, drain]: &[Argument<'_>; 3]) -> Done {
    answer::<Pool>(call, &Request::Del { numbers: &all(numbers)?, drain: drain.is_given() })
}

/// `NUMPOOL.REG key number [number ...] [TTL ms] [SWITCH id] [MISSING]`
pub(super) fn reg(call: &Call<'_>, [_, numbers, ttl, switch, missing]: &[Argument<'_>; 5]) -> Done {
    let (numbers, ttl) = (all(numbers)?, time_to_live("TTL", ttl)?);
    let (switch, missing) = (switch.optional_text(), missing.is_given());
    answer::<Pool>(call, &Request::Reg { numbers: &numbers, ttl, switch, missing })
}

/// The argument of `NUMPOOL.UNREG`.
#[derive(Clone, Copy)]
enum Which {
    Numbers,
    Switch,
}

/// `NUMPOOL.UNREG key number [number ...] [MISSING]` or `NUMPOOL.UNREG key SWITCH id`
pub(super) fn unreg(call: &Call<'_>, [_, which, missing]: &[Argument<'_>; 3]) -> Done {
    let missing = missing.is_given();
    match which.choice(&[Which::Numbers, Which::Switch]) {
        Some(Which::Switch) if missing => {
            Err(Refusal::new(Code::Err, "MISSING is for numbers that are named; it cannot go with SWITCH"))
        }
        Some(Which::Switch) => answer_or_slice(call, OfSwitch::Unreg(which.text())),
        Some(Which::Numbers) | None => {
            answer::<Pool>(call, &Request::Unreg { numbers: &all(which)?, missing })
        }
    }
}

/// `NUMPOOL.SUSPEND key [CAUSE word] [FOR ms] number [number ...] [MISSING]`
pub(super) fn suspend(call: &Call<'_>, [_, cause, ttl, numbers, missing]: &[Argument<'_>; 5]) -> Done {
    let (numbers, cause, missing) = (all(numbers)?, cause.optional_text(), missing.is_given());
    let ttl = time_to_live("FOR", ttl)?;
    answer::<Pool>(call, &Request::Suspend { numbers: &numbers, cause, ttl, missing })
}

/// `NUMPOOL.RESUME key number [number ...] [MISSING]`
pub(super) fn resume(call: &Call<'_>, [_, numbers, missing]: &[Argument<'_>; 3]) -> Done {
    answer::<Pool>(call, &Request::Resume { numbers: &all(numbers)?, missing: missing.is_given() })
}

/// `NUMPOOL.CALL key [number] [option ...]`
pub(super) fn call(
    call: &Call<'_>,
    [_, wanted, ttl, lease, switch, peer, prefixes, pick, wait, priority]: &[Argument<'_>; 10],
) -> Done {
    let prefixes = prefixes.words().iter().map(|text| number(text)).collect::<Result<Numbers, _>>()?;
    let made = token::make_unless(lease.is_given());
    let mut request = request::Call {
        number: wanted.optional_text().map(number).transpose()?,
        ttl: time_to_live("TTL", ttl)?,
        endless: false,
        holder: None,
        lease: token::choice(lease, &made),
        switch: switch.optional_text(),
        peer: peer.optional_text(),
        prefixes: &prefixes,
        pick: pick.member()?,
        random: 0,
    };
    let wait = Wait::of(wait, priority)?;
    count_refused::<Pool>(change::<Pool, _>(call.ctx, call.key()?, |step| {
        draw(step, &mut request);
        let mut decided = decide_call(step, &request);
        // Calls that need an index have their turn in the order in which they came, also those without `WAIT`.
        let is_sorted = request.number.is_some() || step.state().are_sorted_for(&request);
        let wait = wait.or_else(|| (!is_sorted).then(Wait::for_work));
        if let Some(wait) = wait.filter(|_| is_worth_waiting(&decided)) {
            let try_again = is_try_again(&decided);
            if waiting::may_block(call.ctx)? {
                wait.begin(call.ctx, call.key()?, step, &request);
                if try_again {
                    step.state_mut().await_work();
                }
                return Ok(());
            }
            // In a transaction or a script the time to wait is over at once.
            if !try_again {
                decided = Ok(Decision::unchanged(Reply::None));
            }
        }
        let decision = decided?;
        step.apply_decision(&decision);
        step.reply(&Request::Call(request), &decision.reply);
        Ok(())
    }))
}

/// Sets the random choice of a call that needs one.
fn draw(step: &Step<'_, '_, Pool>, request: &mut request::Call<'_>) {
    if request.pick.unwrap_or(step.state().settings().pick) == Policy::Random {
        request.random = token::random();
    }
}

/// Decides a call after those who wait were served: afterwards they could take the number that was found.
fn decide_call(step: &mut Step<'_, '_, Pool>, call: &request::Call<'_>) -> Result<Decision, Refusal> {
    let now = step.now();
    step.state_mut().finish_work(now);
    step.serve();
    if step.state().has_pending_grants() && !step.state().has_lease(call.lease.token, now) {
        // More calls wait than one step serves, and the free numbers are theirs.
        return Ok(Decision::unchanged(Reply::None));
    }
    step.decide(&Request::Call(*call))
}

/// How many further numbers are tried if `take` refuses a number with `EXISTS`.
const TRIED: usize = 64;
/// How many numbers are looked at for that.
const LOOKED_AT: usize = 1000;

/// Calls a number of a pool for a conference, which hangs the number up later. If `take` refuses the number, it is not
/// called: both happen, or neither. If `take` refuses with `EXISTS`, other numbers are tried, the longest waiting
/// first. The lease has no deadline, and is held by the realm of the conference.
///
/// The caller publishes the effects after the conference's own key is closed, too.
pub(crate) fn call_number<'c, T>(
    ctx: Context<'c>,
    pool: KeyName<'c>,
    realm: KeyName<'_>,
    lease: &[u8],
    mut take: impl FnMut(&[u8]) -> Result<T, Refusal>,
) -> Result<(Result<T, Refusal>, Effects<'c, Pool>), Refusal> {
    let mut request = request::Call {
        number: None,
        ttl: None,
        endless: true,
        holder: Some(realm.as_bytes()),
        lease: TokenChoice { token: lease, chosen: false },
        switch: None,
        peer: None,
        prefixes: &[],
        pick: None,
        random: 0,
    };
    change_within::<Pool, _>(ctx, pool, |step| {
        draw(step, &mut request);
        let mut others = None;
        loop {
            let decision = decide_call(step, &request)?;
            let Reply::Lease(record) = &decision.reply else {
                counters::NUMPOOL_NONE_FREE.add(1);
                let name = quoted(pool.as_bytes());
                let text = format!("no number of the pool {name} can be called now");
                return Err(Refusal::new(Code::Limit, text));
            };
            let number = record.number;
            let refusal = match take(&number.text()) {
                Err(refusal) if refusal.code == Code::Exists => refusal,
                Err(refusal) => return Err(refusal),
                Ok(taken) => {
                    step.apply_decision(&decision);
                    step.maintain_from(step.now());
                    return Ok(taken);
                }
            };
            let others = others.get_or_insert_with(|| {
                let (state, now) = (step.state(), step.now());
                // Numbers whose registration has lapsed, but was not ended yet, are in the queue.
                let is_up = |number| {
                    state.number_record(number, now).is_some_and(|record| record.state == State::IdleUp)
                };
                let waiting =
                    state.waiting().take(LOOKED_AT).filter(|other| *other != number && is_up(*other));
                waiting.take(TRIED).collect::<Vec<_>>().into_iter()
            });
            request.number = others.next();
            if request.number.is_none() {
                return Err(refusal);
            }
        }
    })
}

/// `NUMPOOL.HANGUP key number [LEASE token] [COOLDOWN ms] [CAUSE word]`
pub(super) fn hangup(call: &Call<'_>, [_, called, lease, cooldown, cause]: &[Argument<'_>; 5]) -> Done {
    let (lease, cooldown) = (lease.optional_text(), cooldown.optional_integer());
    let cause = cause.optional_text();
    answer::<Pool>(call, &Request::HangUp { number: number(called.text())?, lease, cooldown, cause })
}

/// `NUMPOOL.RENEW key number LEASE token TTL ms`
pub(super) fn renew(call: &Call<'_>, [_, called, lease, ttl]: &[Argument<'_>; 4]) -> Done {
    let number = number(called.text())?;
    let ttl = config::check_ttl(&config::NUMPOOL_MAX_TTL, "TTL", ttl.integer())?;
    answer::<Pool>(call, &Request::Renew { number, lease: lease.text(), ttl })
}

/// `NUMPOOL.BEAT key switch TTL ms`
pub(super) fn beat(call: &Call<'_>, [_, switch, ttl]: &[Argument<'_>; 3]) -> Done {
    let ttl = config::check_ttl(&config::NUMPOOL_MAX_TTL, "TTL", ttl.integer())?;
    answer::<Pool>(call, &Request::Beat { switch: switch.text(), ttl })
}

/// `NUMPOOL.RECONCILE key SWITCH id|NOSWITCH [BEFORE ms] [LEASE token ...]`
pub(super) fn reconcile(call: &Call<'_>, [_, switch, none, before, leases]: &[Argument<'_>; 5]) -> Done {
    if switch.is_given() == none.is_given() {
        let text = "say whose leases to look at: SWITCH and its name, or NOSWITCH";
        return Err(Refusal::new(Code::Err, text));
    }
    let (switch, before, leases) = (switch.optional_text(), before.optional_integer(), leases.words());
    answer_or_slice(call, OfSwitch::Reconcile { switch, before, leases })
}

/// Answers a request about a switch. A request that is too much for one step is carried out in slices.
fn answer_or_slice(call: &Call<'_>, request: OfSwitch<'_>) -> Done {
    let name = call.key()?;
    count_refused::<Pool>(change::<Pool, _>(call.ctx, name, |step| {
        if !step.state().needs_slices(&request) {
            return step.answer(&Request::OfSwitch(request));
        }
        if !waiting::may_block(call.ctx)? {
            let text = format!(
                "the switch has more than {MAX_AT_ONCE} numbers or calls, too many for one step; send the command \
                 outside of the transaction or the script, where it is carried out in slices"
            );
            return Err(Refusal::new(Code::Limit, text));
        }
        let wait = || waiting::block(call.ctx, name, 0, forget_waiter::<Pool>, None);
        let now = step.now();
        step.state_mut().begin_in_slices(now, &request, wait)
    }))
}

/// `NUMPOOL.CONFIG key [LEASE ms] [COOLDOWN ms] [REGTTL ms] [PICK policy] [EVENTS n] [CAPS n [window-ms count] ...]
/// [RATE count ms] [PEERS n] [PEERTTL ms] [DAYSTART time length-ms]`
pub(super) fn configure(
    call: &Call<'_>,
    [_, lease, cooldown, regttl, pick, events, caps, rate, peers, peerttl, days]: &[Argument<'_>; 11],
) -> Done {
    let events = events.optional_integer().map(|events| {
        let wrong = || format!("EVENTS must be 0 to {}, not {events}", u32::MAX);
        u32::try_from(events).map_err(|_| Refusal::new(Code::Err, wrong()))
    });
    let changes = Changes {
        lease: time_to_live("LEASE", lease)?,
        cooldown: cooldown.optional_integer(),
        regttl: time_to_live("REGTTL", regttl)?,
        pick: pick.member()?,
        events: events.transpose()?,
        caps: caps.optional_words().map(all_caps).transpose()?,
        rate: match rate.words() {
            [count, window] => Some(cap("RATE", window, count)?),
            _ => None,
        },
        peers: peers.optional_integer(),
        peerttl: peerttl.optional_integer(),
        days: match days.words() {
            [start, length] => {
                let (start, length) = (whole("DAYSTART", start)?, whole("DAYSTART", length)?);
                Some(Days { start, length })
            }
            _ => None,
        },
    };
    if changes.events.is_some_and(|events| events > 0) {
        outbox::check_stream(call.ctx, call.key()?, "EVENTS")?;
    }
    // A new pool is created with these settings, so that its first event contains all of them.
    let settings = configured(&Settings::default(), &changes)?;
    answer_or_create::<Pool>(call, &Event::Created(settings), &Request::Configure(changes))
}

/// The caps of a list of windows and counts.
fn all_caps(words: &[&[u8]]) -> Result<Vec<Cap>, Refusal> {
    let mut caps = Vec::new();
    for row in words.chunks(2) {
        let [window, count] = row else { continue };
        let cap = cap("CAPS", window, count)?;
        if cap.window == DAY && !is_day(window) {
            return Err(Refusal::new(Code::Err, "CAPS: a window is 1 ms or more, or DAY, not 0"));
        }
        caps.push(cap);
    }
    Ok(caps)
}

fn whole(what: &str, word: &[u8]) -> Result<i64, Refusal> {
    let wrong = || Refusal::new(Code::Err, format!("{what} takes whole numbers, not {}", quoted(word)));
    integer(word).ok_or_else(wrong)
}

/// The word for the window of a calendar day.
fn is_day(window: &[u8]) -> bool {
    window.eq_ignore_ascii_case(b"DAY")
}

/// The cap of two words. A window and a small count that are out of range are refused later.
fn cap(what: &str, window: &[u8], count: &[u8]) -> Result<Cap, Refusal> {
    let window = if is_day(window) { DAY } else { whole(what, window)? };
    let count = whole(what, count)?;
    let wrong =
        |_| Refusal::new(Code::Err, format!("{what}: a window has 1 to {MAX_COUNT} calls, not {count}"));
    Ok(Cap { window, count: u32::try_from(count).map_err(wrong)? })
}

/// `NUMPOOL.CAPS key number n [window count] ...`
pub(super) fn caps(call: &Call<'_>, [_, wanted, caps]: &[Argument<'_>; 3]) -> Done {
    let (number, caps) = (number(wanted.text())?, all_caps(caps.words())?);
    answer::<Pool>(call, &Request::Caps { number, caps: &caps })
}

/// `NUMPOOL.CAUSE key word COOLDOWN ms [AFTER n WITHIN ms]`
pub(super) fn cause(call: &Call<'_>, [_, word, cooldown, after, within]: &[Argument<'_>; 5]) -> Done {
    if after.is_given() != within.is_given() {
        return Err(Refusal::new(Code::Err, "AFTER and WITHIN go together"));
    }
    // A count that is out of range is refused with the rule.
    let after = after.optional_integer().map_or(1, |after| u32::try_from(after).unwrap_or(0));
    let rule = Rule { cooldown: cooldown.integer(), after, within: within.optional_integer().unwrap_or(0) };
    answer::<Pool>(call, &Request::Cause { word: word.text(), rule })
}

/// The numbers of a list.
fn all(numbers: &Argument<'_>) -> Result<Numbers, Refusal> {
    numbers.at_most(LISTED_AT_ONCE, "numbers")?.iter().map(|text| number(text)).collect()
}

/// The form of a number, for error messages.
pub(super) const FORM: &str = "1 to 32 characters of 0-9 + * #";

/// A number.
pub(super) fn number(text: &[u8]) -> Result<Number, Refusal> {
    Number::parse(text).ok_or_else(|| {
        let text = quoted(text);
        Refusal::new(Code::Err, format!("number {text} is not {FORM}"))
    })
}

fn time_to_live(what: &str, ttl: &Argument<'_>) -> Result<Option<i64>, Refusal> {
    let check = |ttl| config::check_ttl(&config::NUMPOOL_MAX_TTL, what, ttl);
    ttl.optional_integer().map(check).transpose()
}
