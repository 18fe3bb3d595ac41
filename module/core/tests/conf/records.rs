//! The `ended` entry of a conference: number, and all assignments.

use super::rig::Rig;
use allot_core::conf::Realm;
use allot_core::conf::conference::Conference;

/// The assignments of a conference as its `ended` entry has them, if no name needs an escape.
fn segments(one: &Conference) -> String {
    let segment = |entry: &allot_core::conf::conference::Assignment| {
        let allot_core::conf::conference::Ending { at: to, how } = entry.ended.unwrap();
        let opened = entry.opened.map_or_else(|| "-".to_owned(), |opened| opened.to_string());
        let cmu = String::from_utf8_lossy(&entry.cmu).into_owned();
        format!("{cmu} {} {} {opened} {to} {}", entry.epoch, entry.from, how.word())
    };
    one.history.iter().map(segment).collect::<Vec<_>>().join(",")
}

/// Checks an entry of the event stream: ends are numbered one by one, and have what the record of the conference has.
/// `ends` is the number of the last end.
pub(super) fn check_entry(realm: &Realm, told: &str, ends: &mut u64) {
    let words: Vec<&str> = told.splitn(14, ' ').collect();
    // The values at the end of an entry may be empty, and are left out here.
    let [
        "evt",
        "ended",
        e164,
        _,
        _,
        "ended",
        cause,
        number,
        origin,
        created,
        start,
        opened,
        ended,
        ref rest @ ..,
    ] = words[..]
    else {
        assert!(!told.starts_with("evt ended"), "{told}");
        return;
    };
    *ends += 1;
    assert_eq!(number, ends.to_string(), "{told}");
    let one = realm.conference_called(e164.as_bytes());
    // The tombstone may be gone, or replaced by the next conference of the number.
    let Some(one) = one.filter(|one| one.origin_epoch.to_string() == origin) else { return };
    let text = |time: Option<i64>| time.map(|time| time.to_string()).unwrap_or_default();
    let times = [Some(one.created), one.start, one.opened, one.ended].map(text);
    assert_eq!(
        (cause, [created, start, opened, ended]),
        (one.cause.word(), times.each_ref().map(String::as_str)),
        "{told}"
    );
    assert_eq!(rest.join(" "), segments(one), "{told}");
}

#[test]
fn end_is_told_with_its_number_and_all_assignments() {
    let mut rig = Rig::new(&["a b,%:1:1", "z:1:1"]);
    let first = rig.open("1");
    rig.pass(500);
    rig.down("a b,%:1:1");
    assert_eq!(rig.recover(), 1);
    let second = rig.epoch("1");
    rig.pass(20);
    rig.ack("1", "z:1:1", second);
    rig.pass(300);
    rig.ended("1", "z:1:1", second);
    let told = rig.told.pop().unwrap();
    let lost = format!("a%20b%2c%25:1:1 {first} 1000 1000 1500 lost");
    let ended = format!("z:1:1 {second} 1500 1520 1820 ended");
    assert_eq!(
        told,
        format!("evt ended 1 z:1:1 {second} ended unit 1 {first} 1000  1000 1820 {lost},{ended}")
    );
    rig.create("2");
    rig.nack("2", "z:1:1", rig.epoch("2"));
    let told = rig.told.pop().unwrap();
    let epoch = rig.epoch("2");
    assert_eq!(
        told,
        format!(
            "evt ended 2 z:1:1 {epoch} ended refused 2 {epoch} 1820   1820 z:1:1 {epoch} 1820 - 1820 failed"
        )
    );
    rig.check();
}
