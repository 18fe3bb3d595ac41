//! Random changes of the plan, each made of the show under test, and of the plan of the naive one by hand.

use super::naive::{Naive, Seat, State};
use super::rig::{FLAGS, Random, Rig, TIERS, point, put_somewhere};
use allot_core::seat::plan::{
    self, PartArea, PartLimits, PartRow, PickOrphans, Plan, PlanArea, PlanPart, PlanRow, PlanSeat, PlanSeats,
    Rule,
};
use allot_core::seat::request::Request;
use allot_core::seat::{Reply, Show};
use allot_core::shared::refusal::Code;
use std::collections::BTreeMap;

impl Naive {
    /// The show after its plan has changed.
    fn altered(&self, plan: &Plan) -> Result<Self, Code> {
        let new = Self::new(plan);
        let mut old: BTreeMap<&str, &Seat> = BTreeMap::new();
        for place in self.places() {
            let seat = self.seat(place);
            old.insert(&seat.id, seat);
        }
        let flags =
            |show: &Self, name: &String| show.places().any(|place| show.seat(place).flags.contains(name));
        let mut altered = self.clone();
        altered.areas.clone_from(&new.areas);
        (altered.seats_per_user, altered.holds_per_user) = (new.seats_per_user, new.holds_per_user);
        (altered.waits_per_user, altered.max_hold) = (new.waits_per_user, new.max_hold);
        altered.pick_orphans = new.pick_orphans;
        for id in altered.ids() {
            let seat = altered.by_id(&id);
            let Some(before) = old.remove(&id[..]) else { continue };
            let taken = matches!(before.state, State::Held(_) | State::Sold(..));
            if taken && (&before.tier, &before.flags) != (&seat.tier, &seat.flags) {
                return Err(Code::BadState);
            }
            (seat.state, seat.block) = (before.state.clone(), before.block);
        }
        if old.values().any(|seat| matches!(seat.state, State::Held(_) | State::Sold(..))) {
            return Err(Code::BadState);
        }
        for waiter in &mut altered.waiters {
            if waiter.wish.needs.iter().any(|(_, flag)| !flags(&new, flag)) {
                return Err(Code::BadState);
            }
            waiter.wish.flags.retain(|flag| flags(&new, flag));
            waiter.wish.preferred.retain(|flag| flags(&new, flag));
        }
        altered.forget_blocks();
        // A tier without seats in an area has no turn there.
        altered.turns.retain(|(tier, area), _| {
            tier.is_none()
                || new.places().any(|place| place.0 == *area && Some(&new.seat(place).tier) == tier.as_ref())
        });
        Ok(altered)
    }
}

fn part<T: serde::de::DeserializeOwned>(json: &str) -> T {
    plan::parse(json.as_bytes()).unwrap()
}

fn seats_of(row: &mut PlanRow) -> &mut Vec<Option<PlanSeat>> {
    match &mut row.seats {
        PlanSeats::List(seats) => seats,
        PlanSeats::Short(_) => panic!("the generator writes lists"),
    }
}

fn new_seat(random: &mut Random, label: String) -> PlanSeat {
    let flags = FLAGS.iter().filter(|_| random.chance(20)).map(ToString::to_string).collect();
    let id = random.chance(20).then(|| format!("id{label}"));
    PlanSeat { label, id, tier: Some(random.pick(&TIERS).into()), flags }
}

/// A new row; beside rows that have places it has one, too.
fn new_row(random: &mut Random, label: String, others: &[PlanRow]) -> PlanRow {
    let seats = (0..=random.below(6)).map(|seat| Some(new_seat(random, format!("{label}.{seat}")))).collect();
    let mut row = PlanRow {
        label,
        rank: random.below(3) as i32,
        tier: None,
        at: None,
        step: None,
        points: None,
        seats: PlanSeats::List(seats),
    };
    if others.iter().any(|other| other.at.is_some()) {
        put_somewhere(random, &mut row);
    }
    row
}

/// A change of one row: new seats at its end, and one seat removed, or of another tier, or with other flags.
fn changed_row(random: &mut Random, row: &PlanRow, step: usize) -> PlanRow {
    let mut row = row.clone();
    row.rank = random.below(3) as i32;
    let seats = seats_of(&mut row);
    for number in 0..random.below(3) {
        seats.push(Some(new_seat(random, format!("s{step}.{number}"))));
    }
    let at = random.below(seats.len());
    match (random.below(5), &mut seats[at]) {
        (0, seat) => *seat = None,
        (1, Some(seat)) => seat.tier = Some(random.pick(&TIERS).into()),
        (2, Some(seat)) => seat.flags = vec![random.pick(&FLAGS).into()],
        (3, Some(seat)) => seat.flags.clear(),
        _ => {}
    }
    if seats.iter().all(Option::is_none) {
        seats.push(Some(new_seat(random, format!("s{step}"))));
    }
    row
}

/// Changes rows of a seated area.
fn change_rows(random: &mut Random, area: &mut PlanArea, change: &mut PartArea, step: usize) {
    let at = random.below(area.rows.len());
    match random.below(6) {
        0 | 1 => {
            let row = new_row(random, format!("r{step}"), &area.rows);
            change.put_rows.push(row.clone());
            area.rows.push(row);
        }
        2 => {
            let row = changed_row(random, &area.rows[at], step);
            change.put_rows.push(row.clone());
            area.rows[at] = row;
        }
        3 => {
            // A seat moves to a new row; it stays the same seat if it has an own id.
            let mut row = new_row(random, format!("r{step}"), &area.rows);
            let seats = seats_of(&mut area.rows[at]);
            let from = random.below(seats.len());
            let moved = seats[from].take();
            seats_of(&mut row).push(moved);
            if seats.iter().all(Option::is_none) {
                seats.push(Some(new_seat(random, format!("s{step}"))));
            }
            change.put_rows.extend([row.clone(), area.rows[at].clone()]);
            area.rows.push(row);
        }
        4 => {
            change.remove_rows.push(area.rows[at].label.clone());
            area.rows.remove(at);
        }
        _ => {
            for row in &mut area.rows {
                row.rank = random.below(3) as i32;
                let mut ranked: PartRow = part(r#"{"label":""}"#);
                (ranked.label, ranked.rank) = (row.label.clone(), Some(row.rank));
                change.rows.push(ranked);
            }
        }
    }
}

fn added_area(random: &mut Random, step: usize) -> PlanArea {
    let (id, priority) = (format!("b{step}"), random.below(2) as i32);
    let rule = random.pick(&[Rule::Ltr, Rule::Rtl, Rule::Center]);
    if random.chance(40) {
        let (standing, tier) = (Some(1 + random.below(5) as u32), Some(random.pick(&TIERS).to_owned()));
        return PlanArea { id, name: None, priority, rule, standing, tier, focus: None, rows: vec![] };
    }
    let rows = (0..=random.below(2)).map(|row| new_row(random, format!("{step}.{row}"), &[])).collect();
    PlanArea { id, name: None, priority, rule, standing: None, tier: None, focus: None, rows }
}

/// Removes seats by their ids, and the rows that they leave empty. Returns the ids.
fn remove_seats(random: &mut Random, plan: &mut Plan, ids: &[String]) -> Vec<String> {
    let mut removed = Vec::new();
    for _ in 0..=random.below(3) {
        let id = random.pick(ids);
        for area in &mut plan.areas {
            for row in &mut area.rows {
                let label = row.label.clone();
                for seat in seats_of(row) {
                    let derived = |seat: &PlanSeat| format!("{}-{label}-{}", area.id, seat.label);
                    if seat
                        .as_ref()
                        .is_some_and(|seat| seat.id.clone().unwrap_or_else(|| derived(seat)) == id)
                    {
                        *seat = None;
                        removed.push(id.clone());
                    }
                }
            }
            area.rows.retain_mut(|row| seats_of(row).iter().any(Option::is_some));
        }
    }
    removed
}

/// A plan in which the flags of each seat are in one order: it depends on earlier plans, and means nothing.
fn with_sorted_flags(mut plan: Plan) -> Plan {
    for row in plan.areas.iter_mut().flat_map(|area| &mut area.rows) {
        if let PlanSeats::List(seats) = &mut row.seats {
            seats.iter_mut().flatten().for_each(|seat| seat.flags.sort_unstable());
        }
    }
    plan
}

/// Other limits, and another length of the event stream.
fn change_limits(random: &mut Random, plan: &mut Plan, request: &mut PlanPart) {
    let limits = &mut plan.limits;
    match random.below(4) {
        0 => limits.seats_per_user = random.pick(&[0, 4, 8]),
        1 => limits.holds_per_user = random.pick(&[0, 1, 3]),
        2 => limits.max_hold_ms = random.pick(&[0, 300]),
        _ => limits.waits_per_user = random.pick(&[0, 1, 3]),
    }
    limits.pick_orphans = random.pick(&[PickOrphans::Allow, PickOrphans::Forbid]);
    plan.events = random.pick(&[0, 5]);
    request.limits = PartLimits {
        seats_per_user: Some(limits.seats_per_user),
        holds_per_user: Some(limits.holds_per_user),
        max_hold_ms: Some(limits.max_hold_ms),
        waits_per_user: Some(limits.waits_per_user),
        pick_orphans: Some(limits.pick_orphans),
    };
    request.events = Some(plan.events);
}

/// Another name, priority and rule for an area.
fn rearranged(random: &mut Random, area: &mut PlanArea, has_focus: bool) -> PartArea {
    area.name = Some(random.pick(&["one", "two"]).to_owned());
    (area.priority, area.rule) = (random.below(3) as i32, random.pick(&[Rule::Ltr, Rule::Rtl, Rule::Center]));
    if random.chance(20) {
        area.focus = Some(point(random, 16));
    }
    if (has_focus || area.focus.is_some())
        && area.rows.iter().any(|row| row.at.is_some())
        && random.chance(50)
    {
        area.rule = Rule::Focus;
    }
    let mut change: PartArea = part(r#"{"id":""}"#);
    change.id.clone_from(&area.id);
    change.name.clone_from(&area.name);
    (change.priority, change.rule, change.focus) = (Some(area.priority), Some(area.rule), area.focus);
    change
}

/// A random change of the plan.
pub(super) fn alter(rig: &mut Rig, random: &mut Random, step: usize) {
    let mut plan = rig.plan.clone();
    let mut request: PlanPart = part("{}");
    match random.below(8) {
        0 => {
            let area = added_area(random, step);
            request.add_areas.push(area.clone());
            plan.areas.push(area);
        }
        1 => request.remove_seats = remove_seats(random, &mut plan, &rig.naive.ids()),
        2 => change_limits(random, &mut plan, &mut request),
        3 => {
            let at = random.below(plan.areas.len());
            request.areas.push(rearranged(random, &mut plan.areas[at], plan.focus.is_some()));
            if random.chance(30) {
                plan.focus = Some(point(random, 16));
                request.focus = plan.focus;
            }
        }
        _ => {
            let at = random.below(plan.areas.len());
            let area = &mut plan.areas[at];
            let mut change: PartArea = part(r#"{"id":""}"#);
            change.id.clone_from(&area.id);
            if area.standing.is_some() {
                area.standing = Some(1 + random.below(14) as u32);
                change.standing = area.standing;
            } else {
                change_rows(random, area, &mut change, step);
            }
            request.areas.push(change);
        }
    }
    let has_rows = plan.areas.iter().all(|area| area.standing.is_some() || !area.rows.is_empty());
    let altered = if has_rows { rig.naive.altered(&plan) } else { Err(Code::Err) };
    let expected = altered.map(|naive| {
        (rig.naive, rig.plan) = (naive, plan);
        Reply::Ok
    });
    let changed = expected.is_ok();
    assert_eq!(rig.ask(&Request::Alter(request.clone())), expected, "{request:?}");
    if changed {
        let expected = Show::new(&rig.plan, 0).unwrap().plan();
        assert_eq!(with_sorted_flags(rig.show.plan()), with_sorted_flags(expected), "{request:?}");
        assert_eq!(rig.show.venue().seat_count() as usize, rig.naive.places().count());
    }
}
