//! Builds a show from the caches of an existing system: a list of tiers, a JSON list of areas for each tier,
//! and for each tier and area a sorted set of the seats that are still free.
//!
//! The caches contain only free seats, by position: the score is `Y*100000+X` (left to right) or `Y*100000-X` (right to
//! left) for place X in row Y. A seat's label is its X, and a row's label is its Y. A place between two free seats that
//! is in no set is either a sold seat or no seat; the operator says which (`--gaps`). The member of the sorted set is the
//! id of the seat. Seats beyond the outermost free
//! seats of a row are in no cache, so they are not in the show.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use redis::cmd;
use serde::Deserialize;

use super::draft::{Area, Draft, Row, Seat, name};
use crate::Progress;
use allot_client::{Connection, query};
use allot_core::seat::plan::{Rule, max};

/// The distance between the scores of two rows; all scores of one row lie within it.
const STRIDE: i64 = 100_000;

/// Names of the caches.
#[derive(Debug, Args)]
pub struct Names {
    /// Key of the list of tiers.
    #[arg(long, default_value = "tiers", value_name = "KEY")]
    tiers_key: String,
    /// Key of a tier's list of areas; {tier} is replaced by the tier.
    #[arg(long, default_value = "{tier}", value_name = "PATTERN")]
    areas_key: String,
    /// Key of the sorted set of a tier's free seats in an area; {tier} and {area} are replaced by both.
    #[arg(long, default_value = "{tier}_{area}", value_name = "PATTERN")]
    seats_key: String,
    /// The meaning of a gap between two free seats.
    #[arg(long, value_enum, default_value_t = Gaps::Sold)]
    gaps: Gaps,
}

impl Names {
    /// The key that is read first: in a cluster, the server that has it is asked for all caches.
    pub fn first_key(&self) -> &str {
        &self.tiers_key
    }
}

/// The meaning of a gap between two free seats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Gaps {
    /// A seat that is sold already.
    Sold,
    /// An aisle, or no seat at all.
    Break,
}

/// An area as existing systems cache it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CachedArea {
    #[serde(deserialize_with = "name")]
    area_id: String,
    name: Option<String>,
    #[serde(rename = "partitionlevel")]
    priority: i32,
    #[serde(rename = "seatAllocationRule")]
    rule: u8,
}

/// A free seat in a cache.
#[derive(Debug, Clone)]
struct CachedSeat {
    tier: String,
    /// The member of the sorted set.
    member: String,
}

/// Free seats by row and place.
type Places = BTreeMap<i64, BTreeMap<i64, CachedSeat>>;

/// Reads the caches and drafts a show.
pub async fn read(connection: &mut Connection, names: &Names, progress: Progress<'_>) -> Result<Draft> {
    let tiers = tiers(connection, &names.tiers_key).await.context("the list of tiers")?;
    if tiers.is_empty() {
        bail!("the list '{}' is empty or absent; --tiers-key names the list of tiers", names.tiers_key);
    }
    let mut found: Vec<(CachedArea, Places)> = Vec::new();
    for (tier, done) in tiers.iter().zip(1..) {
        let key = names.areas_key.replace("{tier}", tier);
        for area in areas(connection, &key).await? {
            if !found.iter().any(|(known, _)| known.area_id == area.area_id) {
                found.push((area.clone(), Places::new()));
            }
            let of_area = found.iter_mut().find(|(known, _)| known.area_id == area.area_id);
            let Some((known, places)) = of_area else { continue };
            if *known != area {
                bail!("key '{key}': area {} differs from what another tier's list says of it", area.area_id);
            }
            let key = names.seats_key.replace("{tier}", tier).replace("{area}", &area.area_id);
            let members: Vec<(String, f64)> =
                query(connection, cmd("ZRANGE").arg(&key).arg(0).arg(-1).arg("WITHSCORES")).await?;
            place(places, &members, rule(&area)?, tier).with_context(|| format!("sorted set '{key}'"))?;
        }
        progress(done, tiers.len() as u64);
    }
    let mut draft = Draft::default();
    for (area, places) in found {
        // The rows of an area without a free seat are in no cache.
        if places.is_empty() {
            tracing::warn!(area = area.area_id, "no free seat in any tier: the area is left out");
            continue;
        }
        draft.areas.push(area_of(&area, places, names.gaps)?);
    }
    draft.drop_unusable_ids();
    Ok(draft)
}

/// The tiers of a show: a list, or a text with a JSON array or with names between commas.
async fn tiers(connection: &mut Connection, key: &str) -> Result<Vec<String>> {
    let kind: String = query(connection, cmd("TYPE").arg(key)).await?;
    if kind != "string" {
        return Ok(query(connection, cmd("LRANGE").arg(key).arg(0).arg(-1)).await?);
    }
    let text: String = query(connection, cmd("GET").arg(key)).await?;
    tiers_in(&text).with_context(|| format!("key '{key}' is no list of tiers"))
}

/// The tiers in a text.
fn tiers_in(text: &str) -> Result<Vec<String>> {
    if text.trim_start().starts_with('[') {
        let tiers: Vec<serde_json::Value> = serde_json::from_str(text)?;
        return Ok(tiers.into_iter().map(name).collect::<Result<Vec<_>, serde_json::Error>>()?);
    }
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

async fn areas(connection: &mut Connection, key: &str) -> Result<Vec<CachedArea>> {
    let text: Option<String> = query(connection, cmd("GET").arg(key)).await?;
    let text =
        text.with_context(|| format!("key '{key}' is absent; --areas-key is the pattern of its name"))?;
    let mut json = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut json).with_context(|| format!("key '{key}' is no list of areas"))
}

fn rule(area: &CachedArea) -> Result<Rule> {
    match area.rule {
        1 => Ok(Rule::Ltr),
        2 => Ok(Rule::Rtl),
        other => bail!("area {}: seatAllocationRule is {other}; 1 is ltr, 2 is rtl", area.area_id),
    }
}

fn place(places: &mut Places, members: &[(String, f64)], rule: Rule, tier: &str) -> Result<()> {
    for (member, score) in members {
        if score.fract() != 0.0 || *score < 0.0 || *score >= 9_007_199_254_740_992.0 {
            bail!("seat '{member}' has the score {score}, which is no Y*{STRIDE}+X or Y*{STRIDE}-X");
        }
        let score = *score as i64;
        let (y, x) = match rule {
            Rule::Rtl => {
                let y = (score + STRIDE - 1) / STRIDE;
                (y, y * STRIDE - score)
            }
            Rule::Ltr | Rule::Center | Rule::Focus => (score / STRIDE, score % STRIDE),
        };
        let seat = CachedSeat { tier: tier.to_owned(), member: member.clone() };
        if let Some(CachedSeat { tier: other, .. }) = places.entry(y).or_default().insert(x, seat) {
            bail!("seat '{member}' is in row {y} at {x}, where a seat of tier '{other}' is already");
        }
    }
    Ok(())
}

fn area_of(area: &CachedArea, places: Places, gaps: Gaps) -> Result<Area> {
    let area_id = area.area_id.clone();
    let mut rows = Vec::with_capacity(places.len());
    for ((y, seats), rank) in places.into_iter().zip(1..) {
        let mut positions: Vec<Option<Seat>> = Vec::new();
        let mut last: Option<(i64, String)> = None;
        for (x, CachedSeat { tier, member }) in seats {
            if let Some((before, tier_before)) = &last {
                if x - before > max::POSITIONS as i64 {
                    bail!(
                        "area {area_id}, row {y}: nothing between {before} and {x}, which is wider than a row may be"
                    );
                }
                positions.extend((before + 1..x).map(|gap| match gaps {
                    Gaps::Sold => Some(Seat { sold: true, ..seat(gap, tier_before.clone()) }),
                    Gaps::Break => None,
                }));
            }
            let mut free = seat(x, tier.clone());
            free.plan.id = Some(member);
            positions.push(Some(free));
            last = Some((x, tier));
        }
        let source = format!("area {area_id}, row {y}");
        rows.push(Row { label: y.to_string(), rank, source, positions });
    }
    let name = area.name.clone().unwrap_or_else(|| area_id.clone());
    Ok(Area { id: area_id, name, priority: area.priority, rule: rule(area)?, rows, ..Area::default() })
}

fn seat(x: i64, tier: String) -> Seat {
    Seat::new(x.to_string(), tier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(scores: &[i64]) -> Vec<(String, f64)> {
        scores.iter().map(|score| (format!("s{score}"), *score as f64)).collect()
    }

    fn cached(rule: u8) -> CachedArea {
        serde_json::from_str(&format!(
            r#"{{"areaId":7,"name":"N","partitionlevel":2,"seatAllocationRule":{rule}}}"#
        ))
        .unwrap()
    }

    fn drawn(area: &Area) -> Vec<String> {
        let position = |position: &Option<Seat>| match position {
            None => "|".to_owned(),
            Some(Seat { plan, sold, .. }) => {
                format!("{}{}{}", plan.label, plan.tier.as_deref().unwrap(), if *sold { "!" } else { "" })
            }
        };
        let row = |row: &Row| {
            format!("{}: {}", row.label, row.positions.iter().map(position).collect::<Vec<_>>().join(" "))
        };
        area.rows.iter().map(row).collect()
    }

    #[test]
    fn tiers_are_a_json_array_or_names_between_commas() {
        assert_eq!(tiers_in(r#" ["gold", 2]"#).unwrap(), ["gold", "2"]);
        assert_eq!(tiers_in("gold, silver,").unwrap(), ["gold", "silver"]);
        assert!(tiers_in("[gold").is_err());
    }

    #[test]
    fn a_free_seat_has_the_member_as_its_id() {
        let mut places = Places::new();
        place(&mut places, &members(&[100_001, 100_003]), Rule::Ltr, "g").unwrap();
        let area = area_of(&cached(1), places, Gaps::Sold).unwrap();
        let ids: Vec<Option<&str>> = area.rows[0].seats().map(|seat| seat.plan.id.as_deref()).collect();
        assert_eq!(ids, [Some("s100001"), None, Some("s100003")]);
    }

    #[test]
    fn both_directions_of_score_give_the_same_rows() {
        for (rule, scores) in [(1, [100_001, 100_002, 200_005]), (2, [99_999, 99_998, 199_995])] {
            let mut places = Places::new();
            place(&mut places, &members(&scores), super::rule(&cached(rule)).unwrap(), "g").unwrap();
            let area = area_of(&cached(rule), places, Gaps::Sold).unwrap();
            assert_eq!(drawn(&area), ["1: 1g 2g", "2: 5g"]);
            assert_eq!((area.id.as_str(), area.priority), ("7", 2));
        }
    }

    #[test]
    fn a_gap_is_sold_or_a_break_but_never_free() {
        let mut places = Places::new();
        place(&mut places, &members(&[100_001, 100_004]), Rule::Ltr, "g").unwrap();
        place(&mut places, &members(&[100_002, 100_006]), Rule::Ltr, "h").unwrap();
        let sold = area_of(&cached(1), places.clone(), Gaps::Sold).unwrap();
        assert_eq!(drawn(&sold), ["1: 1g 2h 3h! 4g 5g! 6h"]);
        let broken = area_of(&cached(1), places, Gaps::Break).unwrap();
        assert_eq!(drawn(&broken), ["1: 1g 2h | 4g | 6h"]);
    }

    #[test]
    fn scores_that_are_no_places_are_refused() {
        let mut places = Places::new();
        assert!(place(&mut places, &[("a".into(), 1.5)], Rule::Ltr, "g").is_err());
        assert!(place(&mut places, &[("a".into(), -1.0)], Rule::Ltr, "g").is_err());
        place(&mut places, &members(&[100_001]), Rule::Ltr, "g").unwrap();
        let twice = place(&mut places, &members(&[100_001]), Rule::Ltr, "h").unwrap_err().to_string();
        assert!(twice.contains("tier 'g' is already"), "{twice}");
        place(&mut places, &members(&[190_001]), Rule::Ltr, "g").unwrap();
        assert!(area_of(&cached(1), places, Gaps::Sold).is_err());
        assert!(super::rule(&cached(3)).is_err());
    }
}
