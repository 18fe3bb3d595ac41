//! Messages of a realm: commands to units (`cmd:<cmu>`) and transitions to observers (`evt`). Every message has
//! `e164`, `cmu` and `epoch`; those that do not apply are empty, or 0.

use super::conference::{Assignment, CalledFrom, Cause, Epoch};
use super::state::Realm;
use super::unit::host_of;
use crate::shared::Millis;
use crate::shared::outbox::{CAPACITY, Fields, Message};
use crate::shared::text::written;

/// Name of the stream of transitions.
pub const EVENTS: &[u8] = b"evt";
/// Name of the stream from units to data proxies, which units write.
pub const INFO: &[u8] = b"info";

/// The queue of calls to hang up in pools of numbers. It is not a stream.
pub const HANG_UPS: &[u8] = b"hangup";

/// The message that hangs up the call of a conference's number. It is kept until the pool has handled it, so that no
/// number is lost.
pub(in crate::conf) fn hang_up(from: &CalledFrom, e164: &[u8]) -> Message {
    Message::to(HANG_UPS).with("pool", &from.pool).with("number", e164).with("lease", &from.lease)
}

/// The most messages that wait for a stream; `None` if the stream is not one of the realm's.
pub(in crate::conf) fn capacity(stream: &[u8]) -> Option<usize> {
    if stream == HANG_UPS { Some(usize::MAX) } else { is_stream(stream).then_some(CAPACITY) }
}

/// Name of the stream of commands to a unit.
pub fn command_stream(cmu: &[u8]) -> Vec<u8> {
    [b"cmd:", cmu].concat()
}

/// Whether a stream belongs to the realm.
pub(in crate::conf) fn is_stream(stream: &[u8]) -> bool {
    let unit = stream.strip_prefix(b"cmd:");
    stream == EVENTS
        || stream == INFO
        || unit.is_some_and(|cmu| (1..=crate::shared::MAX_IDENTIFIER).contains(&cmu.len()))
}

fn message(stream: Vec<u8>, event: &str, e164: &[u8], cmu: &[u8], epoch: Epoch) -> Message {
    let message =
        Message { stream, fields: Fields::default() }.with("event", event.as_bytes()).with("e164", e164);
    message.with("cmu", cmu).with_number("epoch", epoch)
}

fn transition(event: &str, e164: &[u8], cmu: &[u8], epoch: Epoch) -> Message {
    message(EVENTS.to_vec(), event, e164, cmu, epoch)
}

fn command(cmu: &[u8], event: &str, e164: &[u8], epoch: Epoch) -> Message {
    message(command_stream(cmu), event, e164, cmu, epoch)
}

fn flag(set: bool) -> &'static [u8] {
    if set { b"1" } else { b"0" }
}

/// RESYNC: readers of the stream have missed messages.
fn resync(stream: &[u8]) -> Message {
    message(stream.to_vec(), "RESYNC", b"", stream.strip_prefix(b"cmd:").unwrap_or_default(), 0)
}

/// Assignments as text, with commas between: unit, epoch, beginning, opening or `-`, end or `-`, and how it ended or
/// `-`. In the name of the unit, `%`, commas, spaces and all that is not printable ASCII is percent-encoded.
fn segments(history: &[Assignment]) -> Vec<u8> {
    let mut text = Vec::with_capacity(history.len() * 64);
    let time = |text: &mut Vec<u8>, time: Option<Millis>| {
        text.push(b' ');
        match time {
            Some(time) => text.extend_from_slice(&written(time)),
            None => text.push(b'-'),
        }
    };
    for entry in history {
        if !text.is_empty() {
            text.push(b',');
        }
        for &byte in entry.cmu.iter() {
            if byte.is_ascii_graphic() && !matches!(byte, b'%' | b',') {
                text.push(byte);
            } else {
                text.extend_from_slice(format!("%{byte:02x}").as_bytes());
            }
        }
        text.push(b' ');
        text.extend_from_slice(&written(entry.epoch));
        time(&mut text, Some(entry.from));
        time(&mut text, entry.opened);
        time(&mut text, entry.ended.map(|ending| ending.at));
        text.push(b' ');
        text.extend_from_slice(entry.ended.map_or("-", |ending| ending.how.word()).as_bytes());
    }
    text
}

impl Realm {
    fn send(&mut self, message: Message) {
        self.outbox.push_or_resync(message, resync);
    }

    /// CREATE to the unit of the latest assignment, or to the target of a move.
    pub(in crate::conf) fn tell_create(&mut self, id: u32, cmu: &[u8], epoch: Epoch) {
        let Some(conference) = self.indexed(id) else { return };
        let create = command(cmu, "CREATE", &conference.e164, epoch)
            .with("end", &conference.end.map(written).unwrap_or_default())
            .with_number("size", conference.size)
            .with_number("priority", conference.priority)
            .with("request", conference.request.as_deref().unwrap_or_default())
            // The first unit of a conference that waited at its start recovers nothing.
            .with("recovering", flag(conference.recovering && conference.history.len() > 1))
            .with("moving", flag(conference.moving.is_some()));
        self.send_epoch(cmu, epoch, create);
    }

    /// Sends a message from which a unit learns an epoch.
    fn send_epoch(&mut self, cmu: &[u8], epoch: Epoch, message: Message) {
        self.send(message);
        // A host that is forgotten, or was never known, has no units to come back.
        if let Some(host) = self.hosts.get_mut(host_of(cmu)) {
            host.sent.add(epoch);
        }
    }

    /// UPDATE: the end or the size of the conference changed, or its end is near.
    pub(in crate::conf) fn tell_change(&mut self, id: u32, cmu: &[u8], epoch: Epoch) {
        let Some(conference) = self.indexed(id) else { return };
        let update = command(cmu, "UPDATE", &conference.e164, epoch)
            .with_number("number", conference.last_update)
            .with("end", &conference.end.map(written).unwrap_or_default())
            .with_number("size", conference.size)
            .with("near", flag(conference.end_is_near));
        self.send(update);
    }

    /// RELEASE: the unit must end its copy of that epoch. `over` says that the conference itself ends or has ended.
    pub(in crate::conf) fn tell_release(&mut self, cmu: &[u8], e164: &[u8], epoch: Epoch, over: bool) {
        self.send_epoch(cmu, epoch, command(cmu, "RELEASE", e164, epoch).with("over", flag(over)));
    }

    /// EPOCH: the copy on the unit has a new epoch.
    pub(in crate::conf) fn tell_epoch(&mut self, cmu: &[u8], e164: &[u8], old: Epoch, epoch: Epoch) {
        self.send_epoch(cmu, epoch, command(cmu, "EPOCH", e164, epoch).with_number("old", old));
    }

    /// REPORT: the unit must send its list, or all details again.
    pub(in crate::conf) fn tell_report(&mut self, cmu: &[u8], details: bool) {
        let what: &[u8] = if details { b"DETAILS" } else { b"LIST" };
        self.send(command(cmu, "REPORT", b"", 0).with("what", what));
    }

    /// Asks a unit for its list, unless the last message that waits in the outbox for this unit asks for it already.
    pub(in crate::conf) fn ask_once(&mut self, cmu: &[u8]) {
        let last = self.outbox.last_of(&command_stream(cmu));
        if last.is_none_or(|fields| fields.get(b"what") != Some(b"LIST")) {
            self.tell_report(cmu, false);
        }
    }

    /// Deletes the stream of a unit, with the messages that wait for it.
    pub(in crate::conf) fn end_stream(&mut self, cmu: &[u8]) {
        let stream = command_stream(cmu);
        self.outbox.forget(&stream);
        self.send(Message::to(&stream));
    }

    /// A transition of a conference by its latest assignment, with the state after it.
    pub(in crate::conf) fn publish(&mut self, event: &str, id: u32, cause: Option<Cause>) {
        let Some(conference) = self.indexed(id) else { return };
        let (cmu, epoch) = (conference.last_unit().cloned().unwrap_or_default(), conference.epoch);
        self.publish_of(event, id, &cmu, epoch, cause);
    }

    /// A transition of another assignment of a conference.
    pub(in crate::conf) fn publish_of(
        &mut self,
        event: &str,
        id: u32,
        cmu: &[u8],
        epoch: Epoch,
        cause: Option<Cause>,
    ) {
        let Some(conference) = self.indexed(id) else { return };
        let entry = transition(event, &conference.e164, cmu, epoch)
            .with("state", conference.state.word().as_bytes())
            .with_some("cause", cause.map(|cause| cause.word().as_bytes()));
        self.send(entry);
    }

    /// A conference has ended: the transition, with all that its call record needs.
    pub(in crate::conf) fn publish_end(&mut self, id: u32, cause: Cause) {
        let Some(conference) = self.indexed(id) else { return };
        let cmu = conference.last_unit().map_or(&b""[..], |cmu| cmu);
        let entry = transition("ended", &conference.e164, cmu, conference.epoch)
            .with("state", conference.state.word().as_bytes())
            .with("cause", cause.word().as_bytes())
            .with_number("record", self.ends)
            .with_number("origin_epoch", conference.origin_epoch)
            .with_number("created", conference.created)
            .with("start", &conference.start.map(written).unwrap_or_default())
            .with("opened", &conference.opened.map(written).unwrap_or_default())
            .with("ended", &conference.ended.map(written).unwrap_or_default())
            .with("segments", &segments(&conference.history));
        self.send(entry);
    }

    /// Why a unit cannot create a conference.
    pub(in crate::conf) fn publish_refusal(&mut self, id: u32, cmu: &[u8], epoch: Epoch, reason: &[u8]) {
        let Some(conference) = self.indexed(id) else { return };
        self.send(transition("refused", &conference.e164, cmu, epoch).with("reason", reason));
    }

    /// RESYNC: readers of a stream have missed messages, and must read the state again.
    pub(in crate::conf) fn tell_resync(&mut self, stream: &[u8]) {
        self.send(resync(stream));
    }

    /// Publishes that a unit was refused because this one has its host.
    pub(in crate::conf) fn publish_conflict(&mut self, cmu: &[u8], state: &str, machine: &[u8]) {
        let entry = transition("conflict", b"", cmu, 0).with("state", state.as_bytes());
        self.send(entry.with("machine", machine));
    }

    /// A transition of a unit, or of the realm.
    pub(in crate::conf) fn publish_unit(&mut self, event: &str, cmu: &[u8], state: &str) {
        self.send(transition(event, b"", cmu, 0).with("state", state.as_bytes()));
    }
}
