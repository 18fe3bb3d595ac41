//! `CONF.*` and `CMU.*`: the conference family's state machine, as a family of the module.

mod commands;
mod counters;
mod reads;
mod replies;
mod trim;
mod units;
mod waiting;
mod writes;

use allot_core::conf::conference::State;
use allot_core::conf::messages::HANG_UPS;
use allot_core::conf::{ConferenceEvent, Event, Realm, Reply, Request};
use allot_core::shared::machine::Events;
use allot_core::shared::outbox::Fields;
use allot_core::shared::refusal::Refusal;

use self::replies::{reply_conference, reply_host, reply_realm, reply_reported, reply_unit};
use crate::engine::family::{Family, FamilyStatics, Maintained};
use crate::engine::info::Counter;
use crate::engine::reply::{Field, expect_present, reply_list, reply_present, reply_record};
use crate::engine::waiting::Grant;
use crate::ffi::context::Outcome;
use crate::ffi::{Context, KeyName};

pub(crate) use commands::{CMU_COMMANDS, CONF_COMMANDS};

static STATICS: FamilyStatics = FamilyStatics::new();

impl Family for Realm {
    const NUMBER: u8 = 2;
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;
    const MAINTENANCE_FROM: i64 = 0;

    fn statics() -> &'static FamilyStatics {
        &STATICS
    }

    fn reply(&self, ctx: Context<'_>, _: KeyName<'_>, _: i64, _: &Request<'_>, reply: &Reply) {
        match reply {
            Reply::Ok => ctx.reply_ok(),
            Reply::Released => ctx.reply_string(b"RELEASE"),
            Reply::Integer(value) => ctx.reply_integer(*value),
            Reply::Realm => reply_realm(ctx, self),
            Reply::Conference(e164) => {
                let conference = self.conference_called(e164);
                reply_present(ctx, conference, |conference| reply_conference(ctx, self, conference, None));
            }
            Reply::Unit(cmu) => reply_present(ctx, self.unit_called(cmu), |unit| reply_unit(ctx, unit)),
            Reply::Host(host) => reply_host(ctx, self, host),
            Reply::Reported(reported) => reply_reported(ctx, reported),
            Reply::Grants(grants) => {
                reply_list(ctx, grants, |grant| {
                    ctx.reply_array(3);
                    ctx.reply_string(&grant.e164);
                    ctx.reply_string(&grant.cmu);
                    ctx.reply_integer(grant.epoch as i64);
                });
            }
            Reply::Rebalanced(moves) => {
                reply_list(ctx, moves, |planned| {
                    reply_list(ctx, [&planned.e164[..], &planned.from, &planned.to], |name| {
                        ctx.reply_string(name);
                    });
                });
            }
            Reply::Refused(refusal) => {
                Self::count_refusal(refusal);
                ctx.reply_error(&refusal.to_string());
            }
            Reply::Moves(moves, left) => {
                reply_record(ctx, &[("moves", Field::Number(*moves)), ("left", Field::Number(*left))]);
            }
        }
    }

    fn in_use(&self) -> usize {
        State::ALL.into_iter().filter(|state| *state != State::Ended).map(|state| self.count(state)).sum()
    }

    fn count_refusal(_: &Refusal) {
        counters::CONF_REFUSED.add(1);
    }

    fn observe(&self, at: i64, event: &Event) {
        let Event::Conference { e164, event } = event else { return };
        // Most events are writes of details, for which a conference need not be found.
        let out_since = || self.conference_called(e164).and_then(|conference| conference.out_since);
        match event {
            ConferenceEvent::Acked | ConferenceEvent::Adopted { .. } | ConferenceEvent::CopyFound { .. } => {
                if let Some(since) = out_since() {
                    counters::reopened(at - since);
                }
            }
            ConferenceEvent::Ended { .. } if out_since().is_some() => {
                counters::CONF_NEVER_RECOVERED.add(1);
            }
            _ => {}
        }
    }

    fn deliver(ctx: Context<'_>, stream: &[u8], message: &Fields) -> Option<bool> {
        (stream == HANG_UPS).then(|| hang_up(ctx, message))
    }

    fn has_pending_grants(&self) -> bool {
        self.has_pending_grants()
    }

    fn grant(&mut self, now: i64) -> Option<Grant<Events<Event>>> {
        waiting::grant(self, now)
    }

    fn complete(&self, grant: &mut Grant<Events<Event>>) {
        waiting::complete(self, grant);
    }

    fn forget_waiters(&mut self, waiter: Option<u64>) {
        match waiter {
            Some(waiter) => self.stop_waiting(waiter),
            None => self.forget_waiters(),
        }
    }

    fn streams_to_maintain(&self, place: &mut usize) -> Vec<Vec<u8>> {
        trim::next_streams(self, place)
    }

    fn maintenance_after_change(now: i64) -> i64 {
        trim::due(now)
    }

    fn maintain(ctx: Context<'_>, name: KeyName<'_>, stream: &[u8], now: i64) -> Maintained<Event> {
        trim::run(ctx, name, stream, now)
    }
}

/// Hangs up a number that was called for a conference. Returns whether the message is done with, which is also so if
/// the pool no longer exists.
fn hang_up(ctx: Context<'_>, message: &Fields) -> bool {
    let value = |name: &str| expect_present(message.get(name.as_bytes())).unwrap_or_default();
    let arguments = [value("pool"), value("number"), b"LEASE", value("lease")];
    match ctx.call_and_replicate(c"NUMPOOL.HANGUP", &arguments) {
        Outcome::Done => true,
        Outcome::NotRun => false,
        // Another attempt would be refused as well.
        Outcome::Refused => {
            counters::CONF_POOLS_GONE.add(1);
            true
        }
    }
}
