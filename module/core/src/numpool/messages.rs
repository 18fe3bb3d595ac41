//! Events of a pool as entries of its stream `<key>:evt` (docs/numbers.md, The event stream).

use super::event::{Called, Event, Suspension};
use super::number::Number;
use super::state::Pool;
use crate::shared::Millis;
use crate::shared::event::MachineEvent;
use crate::shared::outbox::Message;

impl Pool {
    /// What an event that is about to be applied tells the event stream (docs/numbers.md, The event stream).
    pub fn messages(&self, event: &Event) -> Vec<Message> {
        let message = || Message::new("evt").with("event", event.name().as_bytes());
        let listed = |numbers: &[Number]| message().with("numbers", json(numbers).as_bytes());
        match event {
            Event::Flushed { .. } => Vec::new(),
            Event::Created(_) | Event::Configured(_) | Event::Ruled { .. } | Event::BegunAgain => {
                vec![message()]
            }
            Event::Added(numbers)
            | Event::Draining(numbers)
            | Event::Lapsed(numbers)
            | Event::Resumed { numbers, .. }
            | Event::Cooled(numbers) => vec![listed(numbers)],
            Event::Capped { number, .. } => vec![listed(&[*number])],
            Event::Deleted(numbers) => {
                let leases = numbers.iter().filter_map(|&number| self.lease_message(message(), number));
                let leases: Vec<Message> = leases.collect();
                let others: Vec<Number> =
                    numbers.iter().copied().filter(|&number| !self.state_of(number).is_busy()).collect();
                let others = (!others.is_empty()).then(|| listed(&others));
                leases.into_iter().chain(others).collect()
            }
            Event::Registered { numbers, until, switch, .. } => {
                let message = listed(numbers).with_some("switch", switch.as_deref());
                vec![with_time(message, "until", *until)]
            }
            Event::Unregistered { numbers, switch } => {
                vec![listed(numbers).with_some("switch", switch.as_deref())]
            }
            Event::Beat { switch, until } => {
                vec![with_time(message().with("switch", switch), "until", Some(*until))]
            }
            Event::Silent { switch } => vec![message().with("switch", switch)],
            Event::Called(Called { number, token, until, switch, peer, holder, .. }) => {
                let message = message()
                    .with("number", &number.text())
                    .with("lease", token)
                    .with_some("switch", switch.as_deref())
                    .with_some("peer", peer.as_deref())
                    .with_some("holder", holder.as_deref());
                vec![with_time(message, "until", *until)]
            }
            Event::Suspended { numbers, suspension: Suspension { cause, until } } => {
                let message = listed(numbers).with_some("cause", cause.as_ref().map(|word| &word.0[..]));
                vec![with_time(message, "until", *until)]
            }
            Event::Ended { numbers, cool_until, word, quarantine, .. } => {
                let ended = numbers.iter().filter_map(|&number| {
                    let message = self.lease_message(message(), number)?;
                    let last = self.directory.find(number).is_some_and(|id| self.is_draining(id));
                    let message = message.with_some("cause", word.as_ref().map(|word| &word.0[..]));
                    let message = with_time(message, "cool_until", cool_until.filter(|_| !last));
                    Some(with_time(message, "quarantine_until", *quarantine))
                });
                ended.collect()
            }
            Event::Renewed { number, until } => {
                let message = self.lease_message(message(), *number);
                message.map(|message| with_time(message, "until", Some(*until))).into_iter().collect()
            }
        }
    }

    /// A message about a number that carries a call, and about that.
    fn lease_message(&self, message: Message, number: Number) -> Option<Message> {
        let id = self.directory.find(number)?;
        let lease = self.leases.get(self.directory.get(id).lease())?;
        let peer = self.peers.name(self.peers.of(id)).filter(|_| lease.has_peer);
        Some(
            message
                .with("number", &number.text())
                .with("lease", &lease.token)
                .with_some("switch", self.switches.name(lease.switch))
                .with_some("peer", peer)
                .with_some("holder", self.holders.name(lease.holder)),
        )
    }
}

fn with_time(message: Message, name: &str, time: Option<Millis>) -> Message {
    match time {
        Some(time) => message.with(name, time.to_string().as_bytes()),
        None => message,
    }
}

/// Numbers as a JSON list; their characters need no escape.
fn json(numbers: &[Number]) -> String {
    let quoted: Vec<String> = numbers.iter().map(|number| format!("\"{number}\"")).collect();
    format!("[{}]", quoted.join(","))
}
