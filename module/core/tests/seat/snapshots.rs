//! Snapshots of a show, byte by byte where a version matters.

use super::house::House;
use allot_core::seat::Show;
use allot_core::seat::snapshot::VERSION;

#[test]
fn snapshot_of_another_version_is_refused() {
    let sound = House::rows("ltr", &["...."]).show.encode();
    assert_eq!(u64::from(sound[0]), VERSION);
    assert!(Show::decode(&sound).is_ok());
    for version in [VERSION as u8 - 1, VERSION as u8 + 1] {
        let mut other = sound.clone();
        other[0] = version;
        assert!(Show::decode(&other).is_err(), "{version}");
    }
}
