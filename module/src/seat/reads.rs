//! The `SEAT.*` commands that only read.

use allot_core::seat::Show;
use allot_core::seat::blocking::BlockRecord;
use allot_core::seat::state::{Counts, SeatState};
use allot_core::seat::venue::{Area, Tier};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

use super::replies::{reply_hold, reply_seat, reply_seats};
use crate::engine::argument::{Argument, LISTED_AT_ONCE, READ_AT_ONCE};
use crate::engine::reply::{Field, reply_list, reply_record};
use crate::engine::step::read;
use crate::engine::{Call, Done};
use crate::ffi::Context;

/// `SEAT.GET key seat`
pub(super) fn get(call: &Call<'_>, [_, seat]: &[Argument<'_>; 2]) -> Done {
    let id = seat.text();
    read::<Show>(call, |show, now| {
        let Some(seat) = show.venue().find(id) else {
            return Err(Refusal::new(Code::NotFound, format!("seat {} is not in the show", quoted(id))));
        };
        reply_seat(call.ctx, show, &show.seat_record(seat, now));
        Ok(())
    })
}

/// `SEAT.HOLDS key user`
pub(super) fn holds(call: &Call<'_>, [_, user]: &[Argument<'_>; 2]) -> Done {
    read::<Show>(call, |show, now| {
        let (user, claims) = (user.text(), show.claims());
        let listed = claims.user_called(user).map_or(0, |user| claims.hold_count(user));
        if listed > READ_AT_ONCE {
            let user = quoted(user);
            let text = format!("user {user} has {listed} holds; at most {READ_AT_ONCE} can be listed");
            return Err(Refusal::new(Code::Limit, text));
        }
        reply_list(call.ctx, &show.holds_of(user, now), |record| reply_hold(call.ctx, show, record));
        Ok(())
    })
}

/// `SEAT.ORDER key ref`
pub(super) fn order(call: &Call<'_>, [_, reference]: &[Argument<'_>; 2]) -> Done {
    let reference = reference.text();
    read::<Show>(call, |show, _| {
        if show.claims().order_called(reference).is_none() {
            return Err(Refusal::new(Code::NotFound, format!("there is no order {}", quoted(reference))));
        }
        let Some(seats) = show.order_seats(reference, LISTED_AT_ONCE) else {
            let order = quoted(reference);
            let text = format!("order {order} has more than {LISTED_AT_ONCE} seats, which cannot be listed");
            return Err(Refusal::new(Code::Limit, text));
        };
        reply_seats(call.ctx, show, &seats);
        Ok(())
    })
}

/// The numbers of a tier and of an area, if they are given.
pub(super) fn known(
    show: &Show,
    tier: Option<&[u8]>,
    area: Option<&[u8]>,
) -> Result<(Option<Tier>, Option<Area>), Refusal> {
    let missing = |what: String| Err(Refusal::new(Code::NotFound, what));
    let tier = match tier.map(|name| (name, show.venue().tier_called(name))) {
        Some((name, None)) => return missing(format!("no seat of this show has tier {}", quoted(name))),
        found => found.and_then(|(_, tier)| tier),
    };
    let area = match area.map(|name| (name, show.venue().area_called(name))) {
        Some((name, None)) => return missing(format!("this show has no area {}", quoted(name))),
        found => found.and_then(|(_, area)| area),
    };
    Ok((tier, area))
}

/// `SEAT.STAT key [TIER tier] [AREA area]`
pub(super) fn stat(call: &Call<'_>, [_, tier, area]: &[Argument<'_>; 3]) -> Done {
    let (tier, area) = (tier.optional_text(), area.optional_text());
    read::<Show>(call, |show, _| {
        let venue = show.venue();
        let (tier, area) = known(show, tier, area)?;
        let buckets = show.buckets().iter();
        let buckets: Vec<_> = buckets
            .filter(|bucket| {
                tier.is_none_or(|tier| bucket.tier == tier) && area.is_none_or(|area| bucket.area == area)
            })
            .collect();
        if buckets.len() > READ_AT_ONCE as usize {
            let count = buckets.len();
            let text = format!(
                "{count} pairs of area and tier; at most {READ_AT_ONCE} can be listed: name a TIER or an AREA"
            );
            return Err(Refusal::new(Code::Limit, text));
        }
        reply_list(call.ctx, buckets, |bucket| {
            let info = venue.area(bucket.area);
            let fields = [
                ("area", Field::Text(info.id.as_bytes())),
                ("tier", Field::Text(venue.tier_name(bucket.tier).as_bytes())),
                ("priority", Field::Number(info.priority.into())),
                ("free", Field::Number(bucket.counts.free.into())),
                ("held", Field::Number(bucket.counts.held.into())),
                ("sold", Field::Number(bucket.counts.sold.into())),
                ("blocked", Field::Number(bucket.counts.blocked.into())),
                ("longest", Field::Number(show.longest_run(bucket).into())),
            ];
            reply_record(call.ctx, &fields);
        });
        Ok(())
    })
}

/// `SEAT.BLOCKS key`
pub(super) fn blocks(call: &Call<'_>, [_key]: &[Argument<'_>; 1]) -> Done {
    read::<Show>(call, |show, now| {
        reply_list(call.ctx, show.block_records(now), |BlockRecord { block, left }| {
            let fields = [
                ("block", Field::maybe(block.name.as_deref())),
                ("seats", Field::Number(block.seats.len() as i64)),
                ("left", Field::Number(left as i64)),
                ("until", Field::number(block.until)),
                ("per_user", Field::number(block.per_user.map(i64::from))),
            ];
            reply_record(call.ctx, &fields);
        });
        Ok(())
    })
}

/// `SEAT.MAP key area`
pub(super) fn map(call: &Call<'_>, [_, area]: &[Argument<'_>; 2]) -> Done {
    let id = area.text();
    read::<Show>(call, |show, _| {
        let venue = show.venue();
        let Some(area) = venue.area_called(id) else {
            return Err(Refusal::new(Code::NotFound, format!("this show has no area {}", quoted(id))));
        };
        if venue.area(area).standing {
            reply_counts(call.ctx, show, area);
            return Ok(());
        }
        call.ctx.reply_array(venue.area(area).rows.len());
        let mut text = String::new();
        for row in venue.rows_in_plan(area) {
            text.clear();
            show.write_map_row(row, &mut text);
            call.ctx.reply_array(2);
            call.ctx.reply_string(venue.row_label(row).as_bytes());
            call.ctx.reply_string(text.as_bytes());
        }
        Ok(())
    })
}

/// The map of a standing area: how many places are in each state.
fn reply_counts(ctx: Context<'_>, show: &Show, area: Area) {
    let bucket = show.buckets().iter().find(|bucket| bucket.area == area);
    let counts = bucket.map_or_else(Counts::default, |bucket| bucket.counts);
    let states = [
        (SeatState::Free, counts.free),
        (SeatState::Held, counts.held),
        (SeatState::Sold, counts.sold),
        (SeatState::Blocked, counts.blocked),
    ];
    reply_list(ctx, states, |(state, count)| {
        ctx.reply_array(2);
        ctx.reply_string(state.word().as_bytes());
        ctx.reply_string(count.to_string().as_bytes());
    });
}

/// `SEAT.PLAN key`
pub(super) fn plan(call: &Call<'_>, [_key]: &[Argument<'_>; 1]) -> Done {
    read::<Show>(call, |show, _| {
        call.ctx.reply_string(show.plan_json().as_bytes());
        Ok(())
    })
}
