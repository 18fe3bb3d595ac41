//! Random shows and random requests: the real state machine, a naive one, a replica that gets the events as
//! bytes, and a snapshot must agree after every step.

use super::altering::alter;
use super::naive::Naive;
use super::rig::{Random, Rig, random_plan};
use super::steps::{
    add, block, block_hold, confirm, end_block, exchange, extend, find, hold, move_sales, pick, refund,
    release, transfer, unwait, wait,
};
use allot_core::seat::Show;
use proptest::prelude::*;

fn run(seed: u64, steps: usize) {
    let mut random = Random::new(seed);
    let plan = random_plan(&mut random);
    let show = Show::new(&plan, 0).unwrap();
    let (replica, overdue, naive) = (show.clone(), show.clone(), Naive::new(&plan));
    let mut rig = Rig { replica, overdue, show, naive, plan, now: 1000, slice: usize::MAX };
    let waits = random.chance(60);
    let slices = random.chance(50);
    for step in 0..steps {
        if slices {
            rig.slice = random.pick(&[0, 1, 2, 5]);
        }
        let by = random.pick(&[0, 1, 40]);
        rig.advance(by);
        if random.chance(5) {
            alter(&mut rig, &mut random, step);
            rig.check();
            continue;
        }
        let ids = rig.naive.ids();
        let tokens: Vec<Vec<u8>> = rig.naive.claims.keys().cloned().collect();
        let any_token = |random: &mut Random| {
            if tokens.is_empty() || random.chance(5) { b"nobody".to_vec() } else { random.pick(&tokens) }
        };
        match random.below(if waits { 25 } else { 20 }) {
            0..=6 => hold(&mut rig, &mut random, &format!("t{step}"), &tokens),
            7 => pick(&mut rig, &mut random, &format!("t{step}"), &ids),
            8 => confirm(&mut rig, &any_token(&mut random), random.pick(&[None, Some(&b"order1"[..])])),
            9 => {
                let token = any_token(&mut random);
                release(&mut rig, &mut random, &token);
            }
            10 => refund(&mut rig, &mut random, &ids),
            11 => block(&mut rig, &mut random, &ids),
            13 => {
                let token = any_token(&mut random);
                exchange(&mut rig, &mut random, &token, &ids);
            }
            14 => end_block(&mut rig, &mut random),
            15 => find(&rig, &mut random),
            16 => {
                let fresh = format!("t{step}").into_bytes();
                let token = if random.chance(20) { fresh } else { any_token(&mut random) };
                add(&mut rig, &mut random, &token, &ids, step);
            }
            17 => {
                let token = any_token(&mut random);
                block_hold(&mut rig, &mut random, &token);
            }
            18 => move_sales(&mut rig, &mut random, &ids),
            19 => transfer(&mut rig, &mut random, &format!("x{step}"), &ids),
            20..=23 => wait(&mut rig, &mut random, &format!("w{step}")),
            24 => unwait(&mut rig, &mut random),
            _ => extend(&mut rig, &any_token(&mut random)),
        }
        rig.check();
    }
}

/// How many random shows each of the two tests has, which run at once: few by default, many in a soak.
fn cases() -> u32 {
    let both: u32 =
        std::env::var("ALLOT_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1500);
    both.div_ceil(2)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn show_equals_the_naive_model(seed in any::<u64>()) {
        run(seed, 60);
    }

    #[test]
    fn other_shows_equal_the_naive_model(seed in any::<u64>()) {
        run(seed, 60);
    }
}
