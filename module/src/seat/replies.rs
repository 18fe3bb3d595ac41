//! Replies that are records, field by field in the order of the documentation.

use std::cell::Cell;

use allot_core::seat::list::SaleRecord;
use allot_core::seat::read::SeatRecord;
use allot_core::seat::venue::Seat;
use allot_core::seat::{HoldRecord, Show, WaitRecord};

use crate::engine::reply::{Field, reply_record};
use crate::ffi::Context;

thread_local! {
    /// The buffer in which ids of seats are written, kept from reply to reply. An id has 256 bytes at most.
    static ID: Cell<String> = const { Cell::new(String::new()) };
}

pub(super) fn reply_hold(ctx: Context<'_>, show: &Show, record: &HoldRecord) {
    ctx.reply_map(8);
    reply_names(ctx, record);
    ctx.reply_string(b"seats");
    reply_seats(ctx, show, &record.seats);
    reply_places(ctx, show, &record.seats);
    ctx.reply_string(b"until");
    ctx.reply_integer(record.until);
    ctx.reply_string(b"orphans");
    reply_seats(ctx, show, &show.orphans(&record.seats));
}

/// The token and the user of a hold or sale.
fn reply_names(ctx: Context<'_>, record: &HoldRecord) {
    ctx.reply_string(b"token");
    ctx.reply_string(&record.token);
    ctx.reply_string(b"user");
    ctx.reply_string(&record.user);
}

/// Whether seats are all together, and the numbers of their groups and areas.
pub(super) fn reply_places(ctx: Context<'_>, show: &Show, seats: &[Seat]) {
    let (groups, areas) = show.groups_and_areas(seats);
    ctx.reply_string(b"adjacent");
    ctx.reply_integer(i64::from(groups == 1));
    ctx.reply_string(b"groups");
    ctx.reply_integer(groups as i64);
    ctx.reply_string(b"areas");
    ctx.reply_integer(areas as i64);
}

/// A sale as `SEAT.LIST ORDERS` shows it.
pub(super) fn reply_sale(ctx: Context<'_>, show: &Show, record: &SaleRecord) {
    ctx.reply_map(4);
    ctx.reply_string(b"order");
    match &record.order {
        Some(order) => ctx.reply_string(order),
        None => ctx.reply_null(),
    }
    reply_names(ctx, &record.sale);
    ctx.reply_string(b"seats");
    reply_seats(ctx, show, &record.sale.seats);
}

/// The record of a wait.
pub(super) fn reply_wait(ctx: Context<'_>, record: &WaitRecord) {
    let state: &[u8] = if record.offered { b"offered" } else { b"waiting" };
    let fields = [
        ("token", Field::Text(&record.token)),
        ("user", Field::Text(&record.user)),
        ("count", Field::Number(record.count.into())),
        ("state", Field::Text(state)),
        ("position", Field::Number(record.position as i64)),
        ("since", Field::Number(record.since)),
        ("until", Field::Number(record.until)),
    ];
    reply_record(ctx, &fields);
}

/// A waiter as `SEAT.LIST WAITING` shows it.
pub(super) fn reply_waiter(ctx: Context<'_>, show: &Show, id: u32) {
    let waiter = show.waiters().get(id);
    let wish = &show.waiters().queue_of(waiter).wish;
    let fields = [
        ("token", Field::Text(&waiter.token)),
        ("user", Field::Text(&waiter.user)),
        ("count", Field::Number(wish.count.into())),
        ("tier", Field::maybe(wish.tier.as_deref())),
        ("from", Field::maybe(wish.from.as_deref())),
        ("priority", Field::Number(waiter.place.0.0.into())),
        ("since", Field::Number(waiter.since)),
        ("until", Field::Number(waiter.until)),
    ];
    reply_record(ctx, &fields);
}

pub(super) fn reply_seats(ctx: Context<'_>, show: &Show, seats: &[Seat]) {
    ctx.reply_array(seats.len());
    let mut id = ID.take();
    for &seat in seats {
        id.clear();
        show.venue().write_id(seat, &mut id);
        ctx.reply_string(id.as_bytes());
    }
    ID.set(id);
}

pub(super) fn reply_seat(ctx: Context<'_>, show: &Show, record: &SeatRecord) {
    let venue = show.venue();
    let row = venue.row_of(record.seat);
    let layout = venue.layout(row);
    let position = (record.seat - venue.base(row)) as usize;
    let tier = layout.tier_slot(position).and_then(|slot| layout.tiers.get(slot));
    let mut label = String::new();
    venue.write_label(record.seat, &mut label);
    let maybe = |value: Option<&[u8]>| match value {
        Some(value) => ctx.reply_string(value),
        None => ctx.reply_null(),
    };
    ctx.reply_map(12);
    let texts = [
        ("id", venue.id(record.seat)),
        ("area", venue.area(venue.area_of(row)).id.to_string()),
        ("row", venue.row_label(row).to_owned()),
        ("label", label),
        ("tier", tier.map(|&(tier, _)| venue.tier_name(tier).to_owned()).unwrap_or_default()),
        ("state", record.state.word().to_owned()),
    ];
    for (name, value) in &texts {
        ctx.reply_string(name.as_bytes());
        ctx.reply_string(value.as_bytes());
    }
    ctx.reply_string(b"token");
    maybe(record.token.as_deref());
    ctx.reply_string(b"user");
    maybe(record.user.as_deref());
    ctx.reply_string(b"until");
    match record.until {
        Some(until) => ctx.reply_integer(until),
        None => ctx.reply_null(),
    }
    ctx.reply_string(b"order");
    maybe(record.order.as_deref());
    ctx.reply_string(b"flags");
    let flags: Vec<&str> = venue.flag_names(layout.flags_at(position)).collect();
    ctx.reply_array(flags.len());
    for flag in flags {
        ctx.reply_string(flag.as_bytes());
    }
    ctx.reply_string(b"block");
    maybe(record.block.as_deref());
}
