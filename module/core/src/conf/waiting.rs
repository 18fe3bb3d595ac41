//! Creations that wait for room: the greater priority first, then in the order in which they came. Whenever room may have
//! become free, they are decided again, and the first that fits is created.
//!
//! A waiter is a connection of one server. Waiters are no part of the state of a realm: they are neither saved nor
//! replicated nor copied.

use super::decide::decide;
use super::event::{ConferenceEvent, Event};
use super::model::state::Realm;
use super::model::unit::Name;
use super::model::waiters::{Waiter, Waiters};
use super::outcome::{Decided, Decision};
use super::request::{ClientRequest, Create, Request, WishesRequest};
use crate::shared::refusal::Code;
use crate::shared::{Bytes, Millis};

/// The most waiters that are decided in one call while room is reserved: each may take as long as all planned ends of
/// a realm are many.
const DECIDED_BESIDE_BOOKED: usize = 4;

/// The outcome for a waiter, which no longer waits.
#[derive(Debug)]
pub struct Grant {
    /// The id of the waiter.
    pub waiter: u64,
    /// Events to apply and the reply; or a refusal, if the conference cannot be created any more.
    pub outcome: Decided,
}

impl Waiter {
    fn of(id: u64, now: Millis, create: &Create<'_>) -> Self {
        let owned = |text: Option<&[u8]>| text.map(Bytes::from_slice);
        let list = |tags: Option<&[&[u8]]>| {
            tags.unwrap_or_default().iter().map(|tag| Bytes::from_slice(tag)).collect()
        };
        let wishes = &create.wishes;
        let is_bound = wishes.zone.flatten().is_some() || wishes.host.flatten().is_some();
        let fall = wishes.zone_fall.filter(|&fall| is_bound && fall > 0);
        Self {
            id,
            class: (
                create.size,
                create.licences,
                owned(wishes.zone.flatten()),
                owned(wishes.host.flatten()),
                list(wishes.require),
            ),
            e164: Bytes::from_slice(create.e164),
            end: create.end,
            priority: create.priority,
            zone_fall: wishes.zone_fall,
            falls_at: fall.map(|fall| now.saturating_add(fall)),
            fallen: None,
            prefer: list(wishes.prefer),
            recoverable: create.recoverable,
            request: owned(create.request),
        }
    }

    /// The outcome if the creation is decided now, and whether it is the same for all of its class: otherwise room is
    /// reserved, and what fits depends on the end of each.
    fn decided(&self, realm: &Realm, now: Millis) -> (Decided, bool) {
        let (size, licences, zone, host, require) = &self.class;
        let [require, prefer] =
            [require, &self.prefer].map(|tags| tags.iter().map(|tag| &tag[..]).collect::<Vec<_>>());
        let create = Create {
            e164: &self.e164,
            start: None,
            end: self.end,
            size: *size,
            licences: *licences,
            priority: self.priority,
            wishes: WishesRequest {
                zone: Some(zone.as_deref()),
                zone_fall: self.zone_fall,
                host: Some(host.as_deref()),
                require: Some(&require),
                prefer: Some(&prefer),
            },
            recoverable: self.recoverable,
            waits: true,
            request: self.request.as_deref(),
            called_from: None,
        };
        let mut outcome = decide(realm, now, &Request::Client(ClientRequest::Create(create)));
        if let (Some(fallen), Ok(decision)) = (&self.fallen, &mut outcome) {
            keep_wishes(realm, decision, fallen);
        }
        let is_same = realm.reservations.is_empty() || !realm.has_room(&create);
        (outcome, is_same)
    }
}

/// A conference that is created outside the zone and host that it wished keeps these wishes for later, and is marked as
/// one that may go elsewhere.
fn keep_wishes(realm: &Realm, decision: &mut Decision, (zone, host): &(Option<Bytes>, Option<Bytes>)) {
    let Some(Event::Created(created)) = decision.events.first_mut() else { return };
    created.wishes.zone = zone.as_deref().map(|zone| realm.zone_name(zone));
    created.wishes.host = host.as_deref().map(Name::from);
    let e164 = created.e164.clone();
    decision.events.push(Event::Conference { e164, event: ConferenceEvent::ZoneFell });
}

impl Realm {
    /// Whether a creation that was decided in this way waits if it may: there is no room or there are no licences now.
    pub fn is_worth_waiting(&self, create: &Create<'_>, outcome: &Decided) -> bool {
        let is_full = matches!(outcome, Err(refusal) if refusal.code == Code::Limit);
        is_full && self.are_valid(&create.wishes)
    }

    /// Has a creation wait under an id that no other waiter has. It was decided before, and is worth waiting. O(log n).
    pub fn wait(&mut self, now: Millis, id: u64, create: &Create<'_>) {
        self.waiters.join(Waiter::of(id, now, create));
    }

    /// A waiter has left, for example because its connection has ended. O(log n).
    pub fn stop_waiting(&mut self, id: u64) {
        self.waiters.leave(id);
    }

    /// The realm has another name, for which nobody waits.
    pub fn forget_waiters(&mut self) {
        self.waiters = Waiters::default();
    }

    /// How many creations wait. O(1).
    pub fn waiting_creations(&self) -> usize {
        self.waiters.queue.len()
    }

    /// Whether there may be room for a creation that waits, now or when it may go elsewhere. O(1).
    #[inline]
    pub fn has_pending_grants(&self) -> bool {
        self.waiters.is_pending || self.waiters.next_fall().is_some()
    }

    /// The first waiter for which there is room, or which can never be served, with its outcome. Apply the events, and
    /// call again until there is none. Waiters that are not alive are dropped. O(n + classes log units) in all, for each
    /// time that room may have become free; beside booked conferences, each waiter takes as long as
    /// `Reservations::full`, so only a few are decided in one call. The others are decided in the next.
    pub fn next_grant(&mut self, now: Millis, is_alive: impl Fn(u64) -> bool) -> Option<Grant> {
        let mut beside_booked = 0;
        self.waiters.fall(now);
        while self.waiters.is_pending
            && let Some(rank) = self.waiters.next()
        {
            let Some(waiter) = self.waiters.queue.get(&rank) else { continue };
            let id = waiter.id;
            if !is_alive(id) {
                self.waiters.leave(id);
                continue;
            }
            let (outcome, is_same) = waiter.decided(self, now);
            if matches!(&outcome, Err(refusal) if refusal.code == Code::Limit) {
                // A conference that lasts longer does not fit either.
                let from = if is_same { Millis::MIN } else { waiter.lasts_until() };
                self.waiters.refused.insert(waiter.class.clone(), from);
                beside_booked += usize::from(!is_same);
                if beside_booked == DECIDED_BESIDE_BOOKED {
                    self.waiters.is_cut = true;
                    return None;
                }
                continue;
            }
            self.waiters.leave(id);
            return Some(Grant { waiter: id, outcome });
        }
        None
    }
}
