//! The event stream of a book: messages about accounts, logins and budgets, if the book keeps a stream.

use super::model::record::{Account, Login};
use super::model::state::Book;
use super::model::tariff::MAX_COUNT;
use crate::shared::outbox::Message;
use crate::shared::text::written;

/// The stream, after the name of the key.
pub(super) const STREAM: &str = "evt";

/// The parts of a budget, in percent, at which a message is written.
const PARTS: [u128; 2] = [80, 100];

fn message(event: &str) -> Message {
    Message::new(STREAM).with("event", event.as_bytes())
}

impl Book {
    /// Writes a message that `make` makes, if the book keeps a stream.
    fn tell(&mut self, make: impl FnOnce(&Self) -> Option<Message>) {
        if self.settings.events == 0 {
            return;
        }
        if let Some(message) = make(self) {
            self.outbox.push_or_resync(message, |_| self::message("RESYNC"));
        }
    }

    /// Writes a message about an account, with its module and instance.
    pub(super) fn tell_of(&mut self, event: &str, id: u32, more: impl FnOnce(Message, &Account) -> Message) {
        self.tell(|book| {
            let account = book.indexed(id)?;
            let instance = book.instance_name(account.instance);
            let message = message(event)
                .with("account", &account.name)
                .with("module", &book.module_name(account.module))
                .with_some("instance", (!instance.is_empty()).then_some(&instance[..]));
            Some(more(message, account))
        });
    }

    /// Writes that a login began or ended.
    pub(super) fn tell_of_login(&mut self, event: &str, id: u32, login: &Login) {
        self.tell_of(event, id, |message, _| {
            let message = message.with("terminal", &login.terminal).with_number("epoch", login.epoch);
            message.with_number("until", login.until)
        });
    }

    /// Writes that an account goes to a module, or to an instance of it.
    pub(super) fn tell_of_move(&mut self, id: u32, module: &[u8], instance: Option<&[u8]>) {
        self.tell_of("moved", id, |message, _| {
            message.with("to_module", module).with_some("to_instance", instance)
        });
    }

    /// Writes which step of its tariff an account has reached, and which budgets have reached a part of their caps, when
    /// the last `count` instructions were counted.
    pub(super) fn tell_of_use(&mut self, id: u32, count: u64) {
        if self.settings.events == 0 {
            return;
        }
        let Some(account) = self.indexed(id) else { return };
        let (used, cost, module) =
            (account.position(self.month), account.cost_in(self.month), account.module);
        let limit = account.limit(self.settings.limit());
        let before = used.saturating_sub(count);
        let step = account.tariff.step(used);
        if step > account.tariff.step(before) {
            self.tell_of("step", id, |message, _| {
                let cost = written(cost);
                message.with_number("step", step).with_number("used", used).with("cost", &cost)
            });
        }
        let name = self.indexed(id).map(|account| account.name.to_vec()).unwrap_or_default();
        // A limit that is not set is not reached.
        let cap = if limit == MAX_COUNT { 0 } else { limit };
        self.tell_of_budget("account", &name, cap, used.into(), count);
        self.tell_of_budgets(module, count);
    }

    /// Writes which budgets of a module and its departments have reached a part of their caps, when the last `count`
    /// instructions were counted.
    pub(super) fn tell_of_budgets(&mut self, module: u32, count: u64) {
        let Some(module) = self.indexed_module(module) else { return };
        let (name, department) = (module.name.clone(), module.department.clone());
        let (cap, used) = (module.policy.cap, module.used());
        self.tell_of_budget("module", &name, cap, used, count);
        for level in super::model::state::levels_of(&department) {
            if let Some(budget) = self.departments.get(level).copied() {
                self.tell_of_budget("department", level, budget.cap, budget.used, count);
            }
        }
    }

    fn tell_of_budget(&mut self, of: &str, name: &[u8], cap: u64, used: u128, count: u64) {
        let before = used.saturating_sub(count.into());
        for part in PARTS {
            let limit = u128::from(cap) * part;
            if cap > 0 && before * 100 < limit && limit <= used * 100 {
                self.tell(|_| {
                    let message = message("budget").with("of", of.as_bytes()).with("name", name);
                    let message = message.with_number("percent", part).with_number("used", used);
                    Some(message.with_number("cap", cap))
                });
            }
        }
    }
}
