//! `ACCOUNT.*`: the state machine of books of accounts, as a family of the module.

mod commands;
mod counters;
mod inventory;
mod reads;
mod replies;
mod writes;

use allot_core::account::place::Instance;
use allot_core::account::{Book, Decision, InstanceRequest, Reply, Request};
use allot_core::shared::refusal::{Code, Refusal};

use self::replies::{
    reply_account, reply_all_picked, reply_book, reply_department, reply_instance, reply_login, reply_module,
    reply_shifts, reply_used,
};
use crate::engine::family::{Family, FamilyStatics};
use crate::engine::info::Counter;
use crate::engine::reply::{expect_present, reply_present};
use crate::ffi::{Context, KeyName};

pub(crate) use commands::COMMANDS;

static STATICS: FamilyStatics = FamilyStatics::new();

impl Family for Book {
    const NUMBER: u8 = 3;
    const COUNTERS: &'static [&'static Counter] = counters::COUNTERS;

    fn statics() -> &'static FamilyStatics {
        &STATICS
    }

    fn reply(&self, ctx: Context<'_>, _: KeyName<'_>, now: i64, request: &Request<'_>, reply: &Reply) {
        match reply {
            Reply::Ok => ctx.reply_ok(),
            Reply::Integer(value) => ctx.reply_integer(*value),
            Reply::Book => reply_book(ctx, self, now),
            Reply::Module(name) => {
                let module = self.find_module(name).and_then(|id| self.module(id));
                reply_present(ctx, module, |module| reply_module(ctx, self, module, now));
            }
            Reply::Department(name) => reply_department(ctx, self, name),
            Reply::Instance(module, name) => {
                reply_present(ctx, find_instance(self, module, name), |instance| {
                    reply_instance(ctx, self, instance);
                });
            }
            Reply::Account(name) => reply_present(ctx, self.account_called(name), |account| match request {
                Request::Instance(InstanceRequest::Login { .. } | InstanceRequest::Renew { .. }) => {
                    reply_login(ctx, account);
                }
                _ => reply_account(ctx, self, account, now),
            }),
            Reply::Picked(module, name, count) => {
                let instance = expect_present(find_instance(self, module, name));
                let picked = instance.map(|instance| self.pick(instance, *count)).unwrap_or_default();
                reply_all_picked(ctx, self, &picked);
            }
            Reply::Used(used) => reply_used(ctx, used),
            Reply::Moves(shifts) => reply_shifts(ctx, shifts),
        }
    }

    fn in_use(&self) -> usize {
        self.live_logins()
    }

    fn count_refusal(refusal: &Refusal) {
        counters::ACCOUNT_REFUSED.add(1);
        match refusal.code {
            Code::Limit => counters::ACCOUNT_CAPPED.add(1),
            Code::Stale => counters::ACCOUNT_STALE.add(1),
            _ => {}
        }
    }

    fn count_decision(decision: &Decision) {
        if matches!(decision.reply, Reply::Picked(..)) {
            counters::ACCOUNT_ASKED.add(decision.events.len() as u64);
        }
    }
}

fn find_instance<'a>(book: &'a Book, module: &[u8], name: &[u8]) -> Option<&'a Instance> {
    let id = book.find_instance(book.find_module(module)?, name)?;
    book.instance(id)
}
