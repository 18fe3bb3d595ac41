//! Parties that split on small halls, against brute force: of all ways to seat a party, the one that step 9 of "Best
//! seating, exactly" in docs/seats.md names.

use super::house::{House, wish};
use super::naive::distance;
use super::rig::Random;
use allot_core::seat::plan::Rule;
use allot_core::seat::request::{Hold, Need, Wish};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// A row: the kind of each position's free seat, `None` for breaks and sold seats, and where the positions are.
#[derive(Clone, Debug)]
struct Row {
    area: usize,
    rank: i32,
    /// Positions that are breaks, and not sold seats.
    breaks: Vec<bool>,
    free: Vec<Option<usize>>,
    points: Vec<[f64; 2]>,
    /// First point and step of a straight row.
    line: [[f64; 2]; 2],
}

#[derive(Clone, Debug)]
struct Area {
    rule: Rule,
    priority: i32,
    /// Whether rows are given as points.
    is_curved: bool,
}

/// Areas in the order of the plan, and rows in the order in which they are sold.
#[derive(Clone, Debug)]
struct Hall {
    areas: Vec<Area>,
    focus: [f64; 2],
    rows: Vec<Row>,
}

/// Seats side by side: row, first position, number.
type Group = (usize, usize, usize);

/// How groups compare: by area and row, the larger first, then by distance and order rule.
type Key = (i32, usize, Reverse<usize>, (u64, usize, usize));

const FLAGS: [&str; 3] = ["", "wheelchair", "companion"];

impl Hall {
    fn plan(&self) -> Value {
        let areas = self.areas.iter().enumerate().map(|(number, area)| {
            let rows = self.rows.iter().enumerate().filter(|(_, row)| row.area == number);
            let rows = rows.map(|(label, row)| {
                let seats = row.free.iter().zip(&row.breaks).enumerate();
                let seats = seats.map(|(at, (kind, is_break))| {
                    let flags: Vec<&str> = FLAGS[kind.unwrap_or(0)].split_terminator(' ').collect();
                    (!is_break).then(|| json!({"label": at.to_string(), "flags": flags}))
                });
                let seats: Vec<Option<Value>> = seats.collect();
                let mut row_of_plan =
                    json!({"label": label.to_string(), "rank": row.rank, "tier": "t", "seats": seats});
                if area.is_curved {
                    row_of_plan["points"] = json!(row.points);
                } else if !row.points.is_empty() {
                    (row_of_plan["at"], row_of_plan["step"]) = (json!(row.line[0]), json!(row.line[1]));
                }
                row_of_plan
            });
            let rows: Vec<Value> = rows.collect();
            json!({"id": format!("a{number}"), "rule": area.rule, "priority": area.priority, "rows": rows})
        });
        let areas: Vec<Value> = areas.collect();
        json!({"areas": areas, "focus": self.focus, "limits": {"holds_per_user": 0}})
    }

    /// The show in which the seats that are not free are blocked.
    fn house(&self) -> House {
        let mut house = House::new(&self.plan());
        let sold = self.rows.iter().enumerate().flat_map(|(number, row)| {
            let seats = (0..row.free.len()).filter(move |&at| row.free[at].is_none() && !row.breaks[at]);
            seats.map(move |at| self.id(number, at))
        });
        let sold: Vec<String> = sold.collect();
        if !sold.is_empty() {
            house.block(&sold.iter().map(String::as_str).collect::<Vec<_>>());
        }
        house
    }

    fn id(&self, row: usize, at: usize) -> String {
        format!("a{}-{row}-{at}", self.rows[row].area)
    }

    fn seats(&self, groups: &[Group]) -> Vec<String> {
        let mut groups = groups.to_vec();
        groups.sort_unstable();
        groups.iter().flat_map(|&(row, at, size)| (at..at + size).map(move |at| self.id(row, at))).collect()
    }

    /// The free runs of a kind in an area, or in all.
    fn runs(&self, area: Option<usize>, kind: usize) -> Vec<Group> {
        let mut runs = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            if area.is_some_and(|area| area != row.area) {
                continue;
            }
            let mut at = 0;
            for run in row.free.chunk_by(|one, other| one == other) {
                if run[0] == Some(kind) {
                    runs.push((number, at, run.len()));
                }
                at += run.len();
            }
        }
        runs
    }

    /// Where a group lies in its area, in halves of positions: how far back, its left and its right end. A bent row is measured
    /// by the free run in which the group lies.
    fn span(&self, (number, at, size): Group) -> [i64; 3] {
        let row = &self.rows[number];
        if self.areas[row.area].is_curved {
            let like = |seat: &&Option<usize>| **seat == row.free[at];
            let before = row.free[..at].iter().rev().take_while(like).count();
            let len = before + row.free[at..].iter().take_while(like).count();
            let (start, after) = (at - before, len - before - size);
            let [depth, left, _] = self.span_of_run((number, start, len));
            let is_reversed = self.span_of_run((number, start, 1))[1] > left;
            let left = left + 2 * if is_reversed { after } else { before } as i64;
            return [depth, left, left + 2 * size as i64];
        }
        self.span_of_run((number, at, size))
    }

    fn span_of_run(&self, (number, at, size): Group) -> [i64; 3] {
        let row = &self.rows[number];
        let area = &self.areas[row.area];
        let width = 2 * size as i64;
        if row.points.is_empty() {
            let beside = || self.rows.iter().filter(|other| (other.area, other.rank) == (row.area, row.rank));
            let all: usize = beside().map(|other| other.free.len()).sum();
            let before =
                self.rows[..number].iter().filter(|other| (other.area, other.rank) == (row.area, row.rank));
            let before: usize = before.map(|other| other.free.len()).sum();
            let begin = match area.rule {
                Rule::Ltr | Rule::Focus => 0,
                Rule::Center => -(all as i64),
                Rule::Rtl => -2 * all as i64,
            };
            let left = begin + 2 * (before + at) as i64;
            return [4 * i64::from(row.rank), left, left + width];
        }
        // Along the first row of the area, and across it.
        let first = self.rows.iter().find(|other| other.area == row.area).unwrap();
        let last = if area.is_curved { first.points.len() - 1 } else { 1 };
        let [origin, to] = [first.points[0], first.points[last]];
        let half = [0, 1].map(|axis| (to[axis] - origin[axis]) / (2.0 * last as f64));
        let unit = half[0] * half[0] + half[1] * half[1];
        let of = |at: usize| {
            let [x, y] = [0, 1].map(|axis| row.points[at][axis] - origin[axis]);
            [(y * half[0] - x * half[1]) / unit, (x * half[0] + y * half[1]) / unit]
        };
        let [one, other] = [of(at), of(at + size - 1)].map(|[_, across]| across.round() as i64);
        [of(at + size / 2)[0].round() as i64, one.min(other), one.min(other) + width]
    }

    fn key(&self, (number, at, size): Group) -> Key {
        let row = &self.rows[number];
        let area = &self.areas[row.area];
        let len = row.free.len();
        let order = match area.rule {
            Rule::Ltr => (0, at, 0),
            Rule::Rtl => (0, len - at, 0),
            Rule::Center => (0, (2 * at + size).abs_diff(len), at),
            Rule::Focus => (distance(&row.points[at..at + size], self.focus), at, 0),
        };
        (area.priority, number, Reverse(size), order)
    }

    fn keys(&self, groups: &[Group]) -> Vec<Key> {
        let mut keys: Vec<Key> = groups.iter().map(|&group| self.key(group)).collect();
        keys.sort_unstable();
        keys
    }

    /// The size of the part of the area in which groups lie.
    fn part(&self, groups: &[Group]) -> i64 {
        let spans: Vec<[i64; 3]> = groups.iter().map(|&group| self.span(group)).collect();
        let least = |of: usize| spans.iter().map(|span| span[of]).min().unwrap();
        let most = |of: usize| spans.iter().map(|span| span[of]).max().unwrap();
        most(2) - least(1) + most(0) - least(0)
    }

    /// The size of the smallest group; one person directly behind the others is not alone.
    fn smallest(&self, groups: &[Group]) -> usize {
        let smallest = groups.iter().map(|group| group.2).min().unwrap();
        let [one, other] = *groups else { return smallest };
        let is_behind = [(one, other), (other, one)].into_iter().any(|(others, alone)| {
            let ([depth, left, right], [behind, begin, end]) = (self.span(others), self.span(alone));
            let is_near = (2..=6).contains(&(behind - depth).abs());
            alone.2 == 1 && others.2 >= 2 && others.0 != alone.0 && is_near && left <= begin && end <= right
        });
        if is_behind { smallest.max(2) } else { smallest }
    }

    /// The groups of a party in the area that seats it, or in all areas.
    fn best(&self, count: usize) -> Option<Vec<Group>> {
        let fewest = |area: Option<usize>| ways(&self.runs(area, 0), count).first().map(Vec::len);
        let groups = fewest(None)?;
        let can = (0..self.areas.len()).filter(|&area| fewest(Some(area)) == Some(groups));
        let least = |area: usize| {
            let ways = ways(&self.runs(Some(area), 0), count);
            ways.iter().filter_map(|way| way.iter().map(|group| group.2).min()).max()
        };
        let area = can.min_by_key(|&area| (self.areas[area].priority, Reverse(least(area)), area));
        let ways = ways(&self.runs(area, 0), count).into_iter();
        match area {
            Some(_) if count <= 10 => {
                ways.min_by_key(|way| (Reverse(self.smallest(way)), self.part(way), self.keys(way)))
            }
            _ => ways.min_by_key(|way| {
                let smallest = way.iter().map(|group| group.2).min();
                (Reverse(smallest), self.keys(way))
            }),
        }
    }

    /// The groups of a party with so many seats of each kind, in the only area.
    fn best_of_kinds(&self, counts: &[usize]) -> Option<Vec<Group>> {
        let mut all: Vec<Vec<Group>> = vec![vec![]];
        for (kind, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            let mut ways = ways(&self.runs(None, kind), count);
            let smallest = |way: &Vec<Group>| way.iter().map(|group| group.2).min();
            let most = ways.iter().map(smallest).max()?;
            ways.retain(|way| smallest(way) == most);
            all = all.iter().flat_map(|before| ways.iter().map(|way| [&before[..], way].concat())).collect();
        }
        all.into_iter().min_by_key(|way| (self.part(way), self.keys(way)))
    }

    /// Whether so many seats of each kind are side by side.
    fn has_together(&self, counts: &[usize]) -> bool {
        let size = counts.iter().sum();
        self.rows.iter().flat_map(|row| row.free.windows(size)).any(|run| {
            let of_kind = |kind: usize| run.iter().filter(|seat| **seat == Some(kind)).count();
            (0..counts.len()).all(|kind| of_kind(kind) == counts[kind])
        })
    }
}

/// All ways to seat a party in as few groups of these runs as possible; none if they have too few seats.
fn ways(runs: &[Group], count: usize) -> Vec<Vec<Group>> {
    fn choose(
        places: &[Group],
        missing: usize,
        groups: usize,
        chosen: &mut Vec<Group>,
        found: &mut Vec<Vec<Group>>,
    ) {
        if missing == 0 && groups == 0 {
            found.push(chosen.clone());
        }
        let longest = places.iter().map(|place| place.2).max().unwrap_or(0);
        if groups == 0 || longest * groups < missing {
            return;
        }
        for (number, &(row, at, size)) in places.iter().enumerate() {
            // Two groups do not touch each other.
            let apart = chosen.iter().all(|&(other, start, len)| other != row || at > start + len);
            if size <= missing && apart {
                chosen.push((row, at, size));
                choose(&places[number + 1..], missing - size, groups - 1, chosen, found);
                chosen.pop();
            }
        }
    }
    let places = runs.iter().flat_map(|&(row, start, len)| {
        (start..start + len)
            .flat_map(move |at| (1..=(start + len - at).min(count)).map(move |size| (row, at, size)))
    });
    let (places, mut found): (Vec<Group>, _) = (places.collect(), Vec::new());
    for groups in 1..=count.min(runs.len()) {
        choose(&places, count, groups, &mut Vec::new(), &mut found);
        if !found.is_empty() {
            break;
        }
    }
    found
}

/// Puts rows behind each other in any direction, some of them numbered from the other side, or bent.
fn put_somewhere(random: &mut Random, rows: &mut [Row], is_curved: bool) {
    let scale = random.pick(&[1.0, 2.5]);
    let across =
        random.pick(&[[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.6, 0.8]]).map(|part: f64| part * scale);
    for row in rows {
        let (depth, left) = (f64::from(row.rank) * 2.0, random.below(9) as f64 / 2.0);
        let (len, from_right) = (row.free.len(), random.chance(30));
        let bend = if is_curved { random.pick(&[0.0, 0.25, 0.5]) } else { 0.0 };
        let point = |at: usize| {
            let along = left + if from_right { len - 1 - at } else { at } as f64;
            let back = depth + bend * (along - 4.0).abs();
            [across[0] * along - across[1] * back, across[1] * along + across[0] * back]
        };
        // Plans have numbers of single precision.
        let single = |point: [f64; 2]| point.map(|number| f64::from(number as f32));
        let (at, to) = (single(point(0)), point(1));
        let step = single([0, 1].map(|axis| to[axis] - point(0)[axis]));
        let on_line = |position: usize| [0, 1].map(|axis| at[axis] + position as f64 * step[axis]);
        row.line = [at, step];
        row.points = (0..len).map(|at| if is_curved { single(point(at)) } else { on_line(at) }).collect();
    }
}

fn random_hall(random: &mut Random, kinds: usize, placed: usize, curved: usize) -> Hall {
    let count = if kinds > 1 { 1 } else { random.pick(&[1, 1, 2, 3]) };
    let areas: Vec<Area> = (0..count)
        .map(|_| Area {
            rule: random.pick(&[Rule::Ltr, Rule::Rtl, Rule::Center]),
            priority: random.below(2) as i32,
            is_curved: false,
        })
        .collect();
    let focus = [0, 1].map(|_| random.below(20) as f64 - 5.0);
    let mut hall = Hall { areas, focus, rows: vec![] };
    for area in 0..count {
        let (mut rank, mut rows) = (0, Vec::new());
        for _ in 0..2 + random.below(if count == 1 { 4 } else { 2 }) {
            rank += random.pick(&[0, 1, 1, 1, 2]);
            let (sold, len) = (random.pick(&[20, 40, 60]), 2 + random.below(8));
            let breaks: Vec<bool> = (0..len).map(|at| at > 1 && random.chance(10)).collect();
            let seat = |random: &mut Random| if random.chance(50) { 0 } else { random.below(kinds) };
            let free =
                breaks.iter().map(|is_break| (!is_break && !random.chance(sold)).then(|| seat(random)));
            let free = free.collect();
            rows.push(Row { area, rank, breaks, free, points: vec![], line: [[0.0; 2]; 2] });
        }
        if random.chance(placed) {
            hall.areas[area].is_curved = random.chance(curved);
            put_somewhere(random, &mut rows, hall.areas[area].is_curved);
            if random.chance(30) {
                hall.areas[area].rule = Rule::Focus;
                rows.sort_by_key(|row| {
                    let middles = row.points.chunks(1).chain(row.points.windows(2));
                    (middles.map(|run| distance(run, focus)).min(), row.rank)
                });
            }
        }
        hall.rows.extend(rows);
    }
    hall
}

fn rounds() -> u64 {
    if std::env::var_os("ALLOT_SOAK").is_some() { 20_000 } else { 600 }
}

/// Every party on so many random halls. Returns how many were split.
fn check(placed: usize, curved: usize) -> usize {
    let mut splits = 0;
    for seed in 0..rounds() {
        let mut random = Random::new(seed);
        let hall = random_hall(&mut random, 1, placed, curved);
        let longest = hall.runs(None, 0).iter().map(|run| run.2).max().unwrap_or(0);
        let free: usize = hall.runs(None, 0).iter().map(|run| run.2).sum();
        for count in (longest + 1..=12).take(4).filter(|&count| count > 1 && count <= free) {
            let got = hall.house().hold(wish("u", count as u32));
            let expected = hall.best(count).unwrap();
            assert!(expected.len() > 1);
            let mut got: Vec<String> = got.split(' ').map(str::to_owned).collect();
            let mut seats = hall.seats(&expected);
            got.sort_unstable();
            seats.sort_unstable();
            assert_eq!(got, seats, "seed {seed}, {count} seats: {hall:?}");
            splits += 1;
        }
    }
    splits
}

#[test]
fn every_party_is_split_as_brute_force_does_by_every_rule_in_one_or_several_areas() {
    let splits = check(0, 0);
    assert!(splits > 400, "{splits} parties were split");
}

#[test]
fn every_party_is_split_as_brute_force_does_where_rows_stand_in_any_direction() {
    let splits = check(100, 0);
    assert!(splits > 400, "{splits} parties were split");
}

#[test]
fn every_party_is_split_as_brute_force_does_where_rows_are_bent() {
    let splits = check(100, 100);
    assert!(splits > 400, "{splits} parties were split");
}

#[test]
fn every_party_with_needs_is_split_as_brute_force_does() {
    let mut splits = 0;
    for seed in 0..rounds() {
        let mut random = Random::new(seed);
        let hall = random_hall(&mut random, 3, 30, 0);
        for counts in [[1, 1, 0], [3, 1, 0], [0, 1, 1], [2, 1, 1], [1, 2, 1]] {
            let needs = [1, 2].map(|kind| Need { count: counts[kind] as u32, flag: FLAGS[kind].as_bytes() });
            let needs: Vec<Need<&[u8]>> = needs.into_iter().filter(|need| need.count > 0).collect();
            let total = counts.iter().sum::<usize>() as u32;
            let free = |kind: usize| {
                hall.rows.iter().flat_map(|row| &row.free).filter(|&&seat| seat == Some(kind)).count()
            };
            // A flag that no seat has is unknown.
            if (1..3).any(|kind| counts[kind] > 0 && free(kind) == 0) || hall.has_together(&counts) {
                continue;
            }
            let party = Hold { wish: Wish { needs, ..wish("u", total).wish }, ..wish("u", total) };
            let got = hall.house().hold(party);
            let Some(expected) = hall.best_of_kinds(&counts) else {
                assert_eq!(got, "none", "seed {seed}, {counts:?}: {hall:?}");
                continue;
            };
            let mut got: Vec<String> = got.split(' ').map(str::to_owned).collect();
            let mut seats = hall.seats(&expected);
            got.sort_unstable();
            seats.sort_unstable();
            assert_eq!(got, seats, "seed {seed}, {counts:?}: {hall:?}");
            splits += 1;
        }
    }
    assert!(splits > 400, "{splits} parties were split");
}
