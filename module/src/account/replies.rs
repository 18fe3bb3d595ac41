//! Replies that are records, field by field in the order of the documentation.

use allot_core::account::Book;
use allot_core::account::place::{Instance, Module, Presence};
use allot_core::account::read::{Forecast, Usage, Used};
use allot_core::account::rebalance::Shift;
use allot_core::account::record::{Account, AccountState};
use allot_core::account::tariff::Amount;

use crate::engine::reply::{Field, expect_present, reply_list, reply_record};
use crate::ffi::Context;

pub(super) fn reply_book(ctx: Context<'_>, book: &Book, now: i64) {
    let settings = book.settings();
    let (term, leader) = book.leader();
    let ([free, assigned, revoking, frozen], instances, modules) = book.totals();
    let count = |count: usize| Field::Number(count as i64);
    let fields = [
        ("cap", Field::Number(settings.cap as i64)),
        ("dwell", Field::Number(settings.dwell)),
        ("maxmoves", Field::Number(settings.max_moves.into())),
        ("term", Field::Number(term as i64)),
        ("leader", Field::maybe(leader)),
        ("last_epoch", Field::Number(book.last_epoch() as i64)),
        ("month", Field::Number(book.month().into())),
        ("month_start", Field::number(book.month_start(book.month()))),
        ("month_end", Field::Number(book.month_end(now))),
        ("modules", count(modules)),
        ("instances", count(instances)),
        ("accounts", count(free + assigned + revoking + frozen)),
        ("free", count(free)),
        ("assigned", count(assigned)),
        ("revoking", count(revoking)),
        ("frozen", count(frozen)),
        ("logins", count(book.live_logins())),
        ("margin", Field::Made(settings.margin.to_string())),
        ("lendlevel", Field::Number(settings.lend_level.into())),
        ("events", Field::Number(settings.events.into())),
        ("calendar", Field::Number(settings.calendar.into())),
        ("turns", Field::list(&settings.turns, |&turn| Field::Number(turn))),
    ];
    reply_record(ctx, &fields);
}

/// The use and the cost that are expected of the month, after so much of both.
fn projected(forecast: Option<Forecast>, used: u128, cost: Amount) -> [Field<'static>; 2] {
    let total = |more: Forecast| Amount(cost.0.saturating_add(more.cost.0)).to_string();
    let used = forecast.map_or(Field::Null, |more| large(used.saturating_add(more.more.into())));
    [used, forecast.map(total).map_or(Field::Null, Field::Made)]
}

/// A number that is at most the greatest integer of the protocol.
fn large(value: u128) -> Field<'static> {
    Field::Number(i64::try_from(value).unwrap_or(i64::MAX))
}

pub(super) fn reply_module(ctx: Context<'_>, book: &Book, module: &Module, now: i64) {
    let (accounts, free) = module.counts();
    let attached: Vec<&Instance> =
        module.instances().filter_map(|id| expect_present(book.instance(id))).collect();
    let active = attached.iter().filter(|one| one.presence == Presence::Active).count();
    let used = book.usage_of_module(module);
    let forecast = book.find_module(&module.name).and_then(|id| book.projected_of(id, now));
    let [projected, projected_cost] = projected(forecast, used.used, used.cost);
    let fields = [
        ("module", Field::Text(&module.name)),
        ("department", Field::Text(&module.department)),
        ("instances", Field::Number(module.places.into())),
        ("weight", Field::Number(module.weight.into())),
        ("reserve", Field::Number(module.reserve.into())),
        ("accounts", Field::Number(accounts as i64)),
        ("free", Field::Number(free as i64)),
        ("active", Field::Number(active as i64)),
        ("min", Field::Number(module.policy.min.into())),
        ("share", Field::Text(module.policy.share.word().as_bytes())),
        ("lend", Field::Number(module.policy.lend)),
        ("cap", Field::Number(module.policy.cap as i64)),
        ("need", Field::Number(module.policy.need as i64)),
        ("attached", Field::list(attached, of_module)),
        ("projected", projected),
        ("projected_cost", projected_cost),
    ];
    reply_record(ctx, &fields);
}

/// An instance in the record of its module.
fn of_module(instance: &Instance) -> Field<'_> {
    Field::Record(vec![
        ("instance", Field::Text(&instance.name)),
        ("state", Field::Text(instance.presence.word().as_bytes())),
        ("assigned", Field::Number(instance.assigned.into())),
        ("revoking", Field::Number(instance.accounts.len() as i64 - i64::from(instance.assigned))),
        ("target", Field::Number(instance.offset.clamp(i64::MIN.into(), i64::MAX.into()) as i64)),
    ])
}

pub(super) fn reply_department(ctx: Context<'_>, book: &Book, department: &[u8]) {
    let used = book.used_by_department(department);
    let fields = [
        ("department", Field::Text(department)),
        ("cap", Field::Number(book.budget(department).map_or(0, |budget| budget.cap as i64))),
        ("used", large(used)),
    ];
    reply_record(ctx, &fields);
}

pub(super) fn reply_instance(ctx: Context<'_>, book: &Book, instance: &Instance) {
    let module = book.module_name(instance.module);
    let accounts = instance.accounts.iter().filter_map(|&id| expect_present(book.account(id)));
    let assigned = accounts.filter(|one| one.state == AccountState::Assigned);
    let fields = [
        ("module", Field::Text(&module)),
        ("instance", Field::Text(&instance.name)),
        ("state", Field::Text(instance.presence.word().as_bytes())),
        ("since", Field::Number(instance.since)),
        ("away_until", Field::number(instance.away_until)),
        ("accounts", Field::list(assigned, epoch_of)),
    ];
    reply_record(ctx, &fields);
}

/// An account with the epoch of its assignment.
fn epoch_of(one: &Account) -> Field<'_> {
    Field::List(vec![Field::Text(&one.name), Field::Number(one.epoch as i64)])
}

pub(super) fn reply_account(ctx: Context<'_>, book: &Book, one: &Account, now: i64) {
    let (module, instance) = (book.module_name(one.module), book.instance_name(one.instance));
    let (month, login) = (book.month_at(now), one.live_login(now));
    let (used, cost) = (one.used_in(month), one.cost_in(month));
    let steps = one.tariff.steps.iter().map(|step| format!("{} {}", step.upto, step.price));
    let [projected, projected_cost] = projected(book.projected_for(one, now), used.into(), cost);
    let fields = [
        ("account", Field::Text(&one.name)),
        ("module", Field::Text(&module)),
        ("instance", Field::maybe((!instance.is_empty()).then_some(&instance[..]))),
        ("state", Field::Text(one.state.word().as_bytes())),
        ("epoch", Field::Number(one.epoch as i64)),
        ("since", Field::Number(one.since)),
        ("terminal", Field::maybe(login.map(|login| &login.terminal[..]))),
        ("login_epoch", Field::number(login.map(|login| login.epoch as i64))),
        ("until", Field::number(login.map(|login| login.until))),
        ("quota", Field::Number(one.tariff.quota as i64)),
        ("used", Field::Number(used as i64)),
        ("left", Field::Number(one.left(month) as i64)),
        ("step", Field::Number(one.tariff.step(one.position(month)) as i64)),
        ("cost", Field::Made(cost.to_string())),
        ("tiers", Field::Made(steps.collect::<Vec<_>>().join(" "))),
        ("cap", Field::Number(one.cap as i64)),
        ("frozen_until", Field::number(one.frozen_until)),
        ("turn", Field::Number(one.tally.day().into())),
        ("since_turn", Field::Number(one.position(month) as i64)),
        ("projected", projected),
        ("projected_cost", projected_cost),
    ];
    reply_record(ctx, &fields);
}

pub(super) fn reply_login(ctx: Context<'_>, one: &Account) {
    let login = one.login.as_deref();
    let fields = [
        ("account", Field::Text(&one.name)),
        ("epoch", Field::number(login.map(|login| login.epoch as i64))),
        ("until", Field::number(login.map(|login| login.until))),
    ];
    reply_record(ctx, &fields);
}

pub(super) fn reply_used(ctx: Context<'_>, used: &Used) {
    let fields = [
        ("used", Field::Number(used.used as i64)),
        ("left", Field::Number(used.left as i64)),
        ("step", Field::Number(used.step as i64)),
        ("cost", Field::Made(used.cost.to_string())),
    ];
    reply_record(ctx, &fields);
}

/// The picked accounts; null if there is none.
pub(super) fn reply_all_picked(ctx: Context<'_>, book: &Book, picked: &[&Account]) {
    if picked.is_empty() {
        ctx.reply_nothing();
        return;
    }
    reply_list(ctx, picked, |one| {
        let used = one.used_in(book.month());
        let fields = [
            ("account", Field::Text(&one.name)),
            ("epoch", Field::Number(one.epoch as i64)),
            ("used", Field::Number(used as i64)),
            ("left", Field::Number(one.left(book.month()) as i64)),
        ];
        reply_record(ctx, &fields);
    });
}

pub(super) fn reply_shifts(ctx: Context<'_>, shifts: &[Shift]) {
    reply_list(ctx, shifts, |shift| {
        let fields = [
            ("account", Field::Text(&shift.account)),
            ("from_module", Field::Text(&shift.from.0)),
            ("from_instance", Field::maybe((!shift.from.1.is_empty()).then_some(&shift.from.1[..]))),
            ("to_module", Field::Text(&shift.to.0)),
            ("to_instance", Field::Text(&shift.to.1)),
            ("avoided", Field::Made(shift.avoided.to_string())),
            ("reason", Field::Text(shift.reason.word().as_bytes())),
        ];
        reply_record(ctx, &fields);
    });
}

/// One line of `ACCOUNT.USAGE`.
pub(super) fn reply_usage(ctx: Context<'_>, name: &[u8], usage: &Usage, more: Option<Forecast>) {
    let [projected, projected_cost] = projected(more, usage.used, usage.cost);
    let fields = [
        ("name", Field::Text(name)),
        ("accounts", Field::Number(usage.accounts.into())),
        ("quota", large(usage.quota)),
        ("used", large(usage.used)),
        ("left", large(usage.left)),
        ("cost", Field::Made(usage.cost.to_string())),
        ("projected", projected),
        ("projected_cost", projected_cost),
    ];
    reply_record(ctx, &fields);
}

pub(super) fn reply_history(ctx: Context<'_>, one: &Account) {
    reply_list(ctx, &one.history, |stay| {
        let fields = [
            ("epoch", Field::Number(stay.epoch as i64)),
            ("module", Field::Text(&stay.module)),
            ("instance", Field::Text(&stay.instance)),
            ("from", Field::Number(stay.from)),
            ("to", Field::number(stay.to)),
        ];
        reply_record(ctx, &fields);
    });
}
