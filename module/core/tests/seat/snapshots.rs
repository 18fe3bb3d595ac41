//! Snapshots of older versions.

use super::house::House;
use allot_core::seat::Show;
use allot_core::seat::snapshot::VERSION;
use serde_json::json;

/// A row of four seats: the first is held, the second sold, the fourth blocked.
fn house() -> House {
    let rows = [json!({"label": "1", "rank": 1, "tier": "gold", "seats": "1-4"})];
    let plan = json!({"areas": [{"id": "a", "rows": rows}], "limits": {"holds_per_user": 0}});
    let mut house = House::new(&plan);
    for seat in 1..=3 {
        house.pick("ann", &format!("t{seat}"), &[&format!("a-1-{seat}")]).unwrap();
    }
    house.confirm("t2", Some("o")).unwrap();
    house.release("t3").unwrap();
    house.block(&["a-1-4"]);
    house
}

/// What version 2 wrote for `house`.
const VERSION_2: &[u8] = b"\x02\x02\xc3\x01{\"areas\":[{\"id\":\"a\",\"name\":\"a\",\"priority\":1,\"rule\":\"ltr\",\
    \"rows\":[{\"label\":\"1\",\"rank\":1,\"tier\":\"gold\",\"seats\":\"1-4\"}]}],\"limits\":{\"seats_per_user\":0,\
    \"holds_per_user\":0,\"max_hold_ms\":0},\"events\":0}\x00\x00\x01\x03\x02\x00\x01\x01\x02\x02t1\x03ann\x02\xeb\xa1\
    \x8c\x9a\x85\xbf\xe1\xd9\x10\x01\x00\x00\xd2\x0f\x02t2\x03ann\x02\xd7\xcc\xbf\xd6\xf6\x9a\xea\xbfx\x01\x01\x01\x01\
    \x01o\x01\x00\x00\x00\x00";

#[test]
fn snapshot_of_version_2_is_loaded() {
    let loaded = Show::decode(VERSION_2).unwrap();
    assert_eq!(loaded.encode(), house().show.encode());
}

/// What version 3 wrote for a waiting list: Bob waits for two seats since 1 until 1000, with an offer of 100.
const WAITERS_OF_VERSION_3: &[u8] =
    b"\x01\x01\x00\x00\x02w1\x03bob\x02\x00\x00\x00\x00\x00\x00\x00\xd0\x0f\xc8\x01\x00\x00\x02";

#[test]
fn snapshot_of_version_3_is_loaded_with_its_waiters() {
    // Version 3 has the waiting list before the outbox, which is empty here.
    let (before, outbox) = VERSION_2[1..].split_at(VERSION_2.len() - 5);
    let old = [&[3][..], before, WAITERS_OF_VERSION_3, outbox].concat();
    let loaded = Show::decode(&old).unwrap();
    assert_eq!(loaded.check(), Ok(()));
    let waiter = loaded.waiters().get(loaded.waiters().find(b"w1").unwrap());
    let wish = &loaded.waiters().queue_of(waiter).wish;
    assert_eq!((wish.count, &wish.from, waiter.until, waiter.offer), (2, &None, 1000, 100));
    assert_eq!(Show::decode(&loaded.encode()).unwrap().encode(), loaded.encode());
}

#[test]
fn snapshot_of_version_1_is_loaded() {
    // Version 1 has the number of claims, and no numbers of claims and no free ones.
    let numbers = [&[2, 0, 1, 1, 2][..], b"\x02t1"].concat();
    let at = VERSION_2.windows(numbers.len()).position(|window| window == numbers).unwrap();
    let old = [&[1][..], &VERSION_2[1..=at], &VERSION_2[at + 5..]].concat();
    let loaded = Show::decode(&old).unwrap();
    // It had no free number: claims are numbered in the order of their tokens.
    assert_eq!(loaded.claims().numbers(), 2);
    assert_eq!(loaded.check(), Ok(()));
}

#[test]
fn snapshot_of_a_later_version_is_refused() {
    let mut bytes = house().show.encode();
    assert_eq!(u64::from(bytes[0]), VERSION);
    bytes[0] += 1;
    assert!(Show::decode(&bytes).is_err());
}
