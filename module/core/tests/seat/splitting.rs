//! How a party splits that cannot sit together: examples, and every party on small halls against brute force.

use super::house::{House, area, wish};
use super::rig::Random;
use allot_core::seat::request::{Hold, Need, Wish};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// The seats that a party gets in rows of these ranks; `.` a seat, a space a break.
fn split(rule: &str, rows: &[(&str, i32, &str)], count: u32) -> String {
    House::new(&json!({"areas": [hall("h", rule, rows)]})).hold(wish("u", count))
}

fn hall(id: &str, rule: &str, rows: &[(&str, i32, &str)]) -> Value {
    let seats = |row: &str| {
        let mut label = 0;
        let seats = row.chars().map(|seat| {
            label += i32::from(seat == '.');
            (seat == '.').then(|| json!({"label": label.to_string()}))
        });
        seats.collect::<Vec<_>>()
    };
    let rows = rows.iter().map(
        |&(label, rank, row)| json!({"label": label, "rank": rank, "tier": "gold", "seats": seats(row)}),
    );
    json!({"id": id, "rule": rule, "rows": rows.collect::<Vec<_>>()})
}

#[test]
fn nobody_sits_alone_if_a_pair_can_sit_behind() {
    let rows = [("A", 1, "..."), ("B", 2, "..."), ("Z", 26, "....")];
    assert_eq!(split("ltr", &rows, 5), "h-A-1 h-A-2 h-A-3 h-B-1 h-B-2");
    assert_eq!(split("ltr", &rows, 6), "h-A-1 h-A-2 h-A-3 h-B-1 h-B-2 h-B-3");
}

#[test]
fn one_person_directly_behind_the_others_is_not_alone() {
    let rows = [("A", 1, "...."), ("B", 2, "."), ("Z", 26, "..")];
    assert_eq!(split("ltr", &rows, 5), "h-A-1 h-A-2 h-A-3 h-A-4 h-B-1");
    // Not behind the others, but beside their row.
    let rows = [("A", 1, "...."), ("B", 2, "       ."), ("C", 3, "..")];
    assert_eq!(split("ltr", &rows, 5), "h-A-1 h-A-2 h-A-3 h-C-1 h-C-2");
}

#[test]
fn areas_are_combined_if_that_makes_fewer_groups() {
    let plan = json!({"areas": [area("x", 1, "ltr", &[". . . . . ."]), area("y", 1, "ltr", &["..."]),
        area("z", 1, "ltr", &["..."])]});
    assert_eq!(House::new(&plan).hold(wish("u", 6)), "y-1-1 y-1-2 y-1-3 z-1-1 z-1-2 z-1-3");
}

#[test]
fn area_that_leaves_nobody_alone_comes_before_one_whose_turn_it_is() {
    let area = |id: &str, rows: &[&str]| area(id, 1, "ltr", rows);
    let plan = json!({"areas": [area("x", &["....", ".."]), area("y", &["...", "..."])]});
    assert_eq!(House::new(&plan).hold(wish("u", 6)), "y-1-1 y-1-2 y-1-3 y-2-1 y-2-2 y-2-3");
    let plan = json!({"areas": [area("x", &["....", "."]), area("y", &["...", ".."])]});
    assert_eq!(House::new(&plan).hold(wish("u", 5)), "y-1-1 y-1-2 y-1-3 y-2-1 y-2-2");
}

#[test]
fn halves_of_a_row_lie_side_by_side() {
    // Two rows of rank 1: the left half and the right half.
    let rows = [("A", 1, "... "), ("A.2", 1, " ..."), ("B", 2, "...    "), ("C", 3, "...    ")];
    assert_eq!(split("ltr", &rows, 4), "h-A-1 h-A-2 h-B-1 h-B-2");
    assert_eq!(split("rtl", &rows, 4), "h-A-2 h-A-3 h-B-1 h-B-2");
}

#[test]
fn companion_sits_next_to_the_wheelchair_across_a_gap_or_behind() {
    let wheelchair = |seats: &str| {
        let flags = |label: &str| if label == "3" { vec!["wheelchair"] } else { vec![] };
        let seats = seats.split(',').map(|label| match label {
            "|" => Value::Null,
            label => json!({"label": label, "flags": flags(label)}),
        });
        seats.collect::<Vec<_>>()
    };
    let plan = json!({"areas": [{"id": "h", "rows": [
        {"label": "1", "rank": 1, "tier": "t", "seats": wheelchair("1,2,|,3")},
        {"label": "2", "rank": 2, "tier": "t", "seats": "1-9"}]}]});
    let needs = || vec![Need { count: 1, flag: &b"wheelchair"[..] }];
    let pair = || Hold { wish: Wish { needs: needs(), ..wish("u", 2).wish }, ..wish("u", 2) };
    let mut house = House::new(&plan);
    assert_eq!(house.hold(pair()), "h-1-2 h-1-3");
    let mut house = House::new(&plan);
    house.block(&["h-1-2"]);
    assert_eq!(house.hold(pair()), "h-1-3 h-2-4");
}

#[test]
fn scattered_seats_are_in_few_groups_of_equal_size() {
    let mut show = House::rows("ltr", &[". .. ...", "...."]);
    assert_eq!(show.hold(wish("u", 6)), "a-1-4 a-1-5 a-1-6 a-2-2 a-2-3 a-2-4");
}

#[test]
fn large_party_splits_from_the_front() {
    let mut show = House::rows("ltr", &["....", "......", "......", "......"]);
    assert_eq!(show.hold(wish("u", 14)).matches("a-2-").count(), 6);
}

/// A group: row, first position, seats.
type Group = (usize, usize, usize);

/// How good a choice of groups is, the least best: the smallest group (a single one behind the others is a pair), and the
/// size of the part of the hall that they lie in.
fn quality(ranks: &[i32], groups: &[Group]) -> (usize, Reverse<usize>, i64) {
    let smallest = groups.iter().map(|group| group.2).min().unwrap();
    let is_pair = match *groups {
        [one, other] => [(one, other), (other, one)].into_iter().any(|((row, at, size), alone)| {
            alone.2 == 1
                && size >= 2
                && ranks[row].abs_diff(ranks[alone.0]) == 1
                && (at..at + size).contains(&alone.1)
        }),
        _ => false,
    };
    let smallest = if is_pair { smallest.max(2) } else { smallest };
    let left = groups.iter().map(|group| group.1).min().unwrap();
    let right = groups.iter().map(|group| group.1 + group.2).max().unwrap();
    let (front, back) =
        (groups.iter().map(|group| ranks[group.0]), groups.iter().map(|group| ranks[group.0]));
    let depth = back.max().unwrap() - front.min().unwrap();
    (groups.len(), Reverse(smallest), (right - left) as i64 + 2 * i64::from(depth))
}

/// The best quality of all ways to seat the party.
fn best(rows: &[Vec<bool>], ranks: &[i32], count: usize) -> Option<(usize, Reverse<usize>, i64)> {
    fn choose(
        places: &[Group],
        missing: usize,
        most: usize,
        chosen: &mut Vec<Group>,
        each: &mut impl FnMut(&[Group]),
    ) {
        if missing == 0 {
            return each(chosen);
        }
        if chosen.len() == most {
            return;
        }
        for (number, &(row, at, size)) in places.iter().enumerate() {
            // Two groups do not touch each other.
            let apart = chosen.iter().all(|&(other, start, len)| other != row || at > start + len);
            if size <= missing && apart {
                chosen.push((row, at, size));
                choose(&places[number + 1..], missing - size, most, chosen, each);
                chosen.pop();
            }
        }
    }
    let mut places = Vec::new();
    for (row, seats) in rows.iter().enumerate() {
        for at in 0..seats.len() {
            let run = seats[at..].iter().take_while(|&&free| free).count();
            places.extend((1..=run.min(count)).map(|size| (row, at, size)));
        }
    }
    (1..=count).find_map(|most| {
        let mut found = None;
        choose(&places, count, most, &mut Vec::new(), &mut |groups| {
            let quality = quality(ranks, groups);
            found = Some(found.map_or(quality, |other| quality.min(other)));
        });
        found
    })
}

#[test]
fn every_party_on_small_halls_is_split_as_well_as_possible() {
    let mut splits = 0;
    let rounds = if std::env::var_os("ALLOT_SOAK").is_some() { 20_000 } else { 400 };
    for seed in 0..rounds {
        let mut random = Random::new(seed);
        let mut rank = 0;
        let halls = (0..2 + random.below(4)).map(|_| {
            rank += 1 + random.below(2) as i32;
            let sold = random.pick(&[20, 40, 60]);
            (rank, (0..3 + random.below(8)).map(|_| !random.chance(sold)).collect::<Vec<bool>>())
        });
        let (ranks, rows): (Vec<i32>, Vec<Vec<bool>>) = halls.unzip();
        let free: usize = rows.iter().flatten().filter(|&&free| free).count();
        for count in (2..=8).filter(|&count| count <= free) {
            let lines: Vec<String> = rows
                .iter()
                .map(|row| row.iter().map(|&free| if free { '.' } else { ' ' }).collect())
                .collect();
            let labels: Vec<String> = (0..rows.len()).map(|row| row.to_string()).collect();
            let plan: Vec<(&str, i32, &str)> = (0..rows.len())
                .filter(|&row| lines[row].contains('.'))
                .map(|row| (labels[row].as_str(), ranks[row], lines[row].as_str()))
                .collect();
            let got = split("ltr", &plan, count as u32);
            // Labels count the seats of a row: the position is that of the label's seat.
            let mut seats: Vec<(usize, usize)> = got
                .split(' ')
                .map(|id| {
                    let (row, label) = id.trim_start_matches("h-").split_once('-').unwrap();
                    let (row, label): (usize, usize) = (row.parse().unwrap(), label.parse().unwrap());
                    let free = rows[row].iter().enumerate().filter(|(_, free)| **free);
                    (row, free.map(|(at, _)| at).nth(label - 1).unwrap())
                })
                .collect();
            seats.sort_unstable();
            let mut groups: Vec<Group> = Vec::new();
            for (row, at) in seats {
                match groups.last_mut() {
                    Some((other, start, len)) if *other == row && *start + *len == at => *len += 1,
                    _ => groups.push((row, at, 1)),
                }
            }
            if groups.len() > 1 {
                splits += 1;
                let expected = best(&rows, &ranks, count).unwrap();
                assert_eq!(
                    quality(&ranks, &groups),
                    expected,
                    "seed {seed}, {count} seats: {lines:?} gave {got}"
                );
            }
        }
    }
    assert!(splits > 300, "{splits} parties were split");
}
