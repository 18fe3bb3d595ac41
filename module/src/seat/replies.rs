//! Replies that are records, field by field in the order of the documentation.

use std::cell::Cell;

use allot_core::seat::list::SaleRecord;
use allot_core::seat::read::SeatRecord;
use allot_core::seat::venue::Seat;
use allot_core::seat::{HoldRecord, Show, WaitRecord};

use crate::engine::reply::{Field, reply_field, reply_list, reply_record};
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
    reply_field(ctx, &Field::maybe(record.order.as_deref()));
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
    let mut id = ID.take();
    reply_list(ctx, seats, |&seat| {
        id.clear();
        show.venue().write_id(seat, &mut id);
        ctx.reply_string(id.as_bytes());
    });
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
    let fields = [
        ("id", Field::Made(venue.id(record.seat))),
        ("area", Field::Text(venue.area(venue.area_of(row)).id.as_bytes())),
        ("row", Field::Text(venue.row_label(row).as_bytes())),
        ("label", Field::Made(label)),
        ("tier", Field::Text(tier.map_or("", |&(tier, _)| venue.tier_name(tier)).as_bytes())),
        ("state", Field::Text(record.state.word().as_bytes())),
        ("token", Field::maybe(record.token.as_deref())),
        ("user", Field::maybe(record.user.as_deref())),
        ("until", Field::number(record.until)),
        ("order", Field::maybe(record.order.as_deref())),
        (
            "flags",
            Field::list(venue.flag_names(layout.flags_at(position)), |flag| Field::Text(flag.as_bytes())),
        ),
        ("block", Field::maybe(record.block.as_deref())),
    ];
    reply_record(ctx, &fields);
}
