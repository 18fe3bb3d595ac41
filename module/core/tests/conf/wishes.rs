//! Which units may take a conference: tags that it requires and prefers, its zone and its host, and what becomes of these
//! wishes when they cannot be met.

use super::rig::{Rig, wish};
use allot_core::conf::Reply;
use allot_core::conf::conference::State;
use allot_core::conf::request::{
    ClientRequest, Create, Request, SchedulerRequest, UnitRequest, WishesRequest,
};
use allot_core::shared::refusal::Refusal;

const FRA: &str = "fra:1:1";
const LON: &str = "lon:1:1";
const HD: &[u8] = b"hd";
const GPU: &[u8] = b"gpu";
const NONE: WishesRequest<'static> =
    WishesRequest { zone: None, zone_fall: None, host: None, require: None, prefer: None };

fn join(rig: &mut Rig, cmu: &str, zone: &str, tags: &[&[u8]]) {
    let (cmu, zone) = (cmu.as_bytes(), Some(zone.as_bytes()));
    rig.ask(&Request::Unit(UnitRequest::Join {
        cmu,
        capacity: 10,
        zone,
        tags,
        lease: 3_600_000,
        machine: None,
    }))
    .unwrap();
}

fn create(rig: &mut Rig, e164: &str, wishes: WishesRequest<'_>) -> Result<Reply, Refusal> {
    rig.ask(&Request::Client(ClientRequest::Create(Create { wishes, ..wish(e164) })))
}

/// Creates a conference; the unit that gets it, or the code of the refusal.
fn placed(rig: &mut Rig, e164: &str, wishes: WishesRequest<'_>) -> String {
    match create(rig, e164, wishes) {
        Ok(_) => rig.owner(e164),
        Err(refusal) => refusal.code.word().into(),
    }
}

fn alter(rig: &mut Rig, e164: &str, wishes: WishesRequest<'_>) -> String {
    rig.code(&Request::Client(ClientRequest::Alter { e164: e164.as_bytes(), wishes }))
}

fn move_to(rig: &mut Rig, e164: &str, to: Option<&str>) -> Result<Reply, Refusal> {
    let request = SchedulerRequest::Move { e164: e164.as_bytes(), to: to.map(str::as_bytes) };
    rig.ask(&Request::Scheduler { term: None, request })
}

/// A unit in each of two zones; that in `lon` has tags.
fn rig() -> Rig {
    let mut rig = Rig::new(&[]);
    join(&mut rig, FRA, "fra", &[]);
    join(&mut rig, LON, "lon", &[HD, GPU]);
    rig
}

/// Conference 7 in zone `fra`, which lost its only unit there, with that `ZONEFALL`.
fn lost(zone_fall: Option<i64>) -> Rig {
    let mut rig = rig();
    let wishes = WishesRequest { zone: Some(Some(b"fra")), zone_fall, ..NONE };
    assert_eq!(placed(&mut rig, "7", wishes), FRA);
    let epoch = rig.epoch("7");
    rig.ack("7", FRA, epoch);
    rig.down(FRA);
    rig
}

#[test]
fn required_tags_must_all_be_there() {
    let mut rig = rig();
    let require = |tags| WishesRequest { require: Some(tags), ..NONE };
    assert_eq!(placed(&mut rig, "1", require(&[HD])), LON);
    assert_eq!(placed(&mut rig, "2", require(&[GPU, HD, GPU])), LON);
    assert_eq!(placed(&mut rig, "3", require(&[HD, b"dial-in"])), "LIMIT");
    assert_eq!(placed(&mut rig, "4", WishesRequest { zone: Some(Some(b"fra")), ..require(&[HD]) }), "LIMIT");
    assert_eq!(placed(&mut rig, "5", require(&[])), FRA);
    let refusal = create(&mut rig, "6", require(&[b"dial-in"])).unwrap_err();
    assert_eq!(refusal.text, "no unit with 'dial-in' has room for a conference of size 1");
    rig.check();
}

#[test]
fn preferred_tags_count_by_number_and_then_the_used_share() {
    let mut rig = rig();
    join(&mut rig, "ber:1:1", "ber", &[HD]);
    let prefer = |tags| WishesRequest { prefer: Some(tags), ..NONE };
    for (e164, tags, unit) in [
        ("1", &[HD, GPU][..], LON),
        ("2", &[GPU, b"dial-in"], LON),
        // Both have it, and LON is used more.
        ("3", &[HD], "ber:1:1"),
        // None has it.
        ("4", &[b"dial-in"], FRA),
    ] {
        assert_eq!(placed(&mut rig, e164, prefer(tags)), unit, "{e164}");
    }
    // A unit that is full is no choice, however many tags it has.
    rig.ask(&Request::Client(ClientRequest::Resize { e164: b"1", size: 9 })).unwrap();
    assert_eq!(placed(&mut rig, "5", prefer(&[HD, GPU])), "ber:1:1");
    rig.check();
}

#[test]
fn named_host_gets_the_conference_or_nobody() {
    let mut rig = rig();
    let host = |host| WishesRequest { host: Some(Some(host)), ..NONE };
    for e164 in ["1", "2", "3"] {
        assert_eq!(placed(&mut rig, e164, host(b"lon")), LON);
    }
    assert_eq!(placed(&mut rig, "4", host(b"par")), "LIMIT");
    // The next run of the unit is on the same host.
    rig.join("lon:1:2", 10);
    assert_eq!(rig.recover(), 3);
    assert_eq!(rig.owner("1"), "lon:1:2");
    rig.check();
}

#[test]
fn conference_that_waited_long_enough_for_its_zone_goes_elsewhere() {
    let mut rig = lost(Some(5000));
    rig.told.clear();
    rig.pass(4999);
    assert_eq!((rig.recover(), rig.one("7").elsewhere), (0, false));
    rig.pass(1);
    assert_eq!(rig.told, [format!("evt zone-fell 7 {FRA} {} pending", rig.epoch("7"))]);
    assert_eq!((rig.recover(), rig.owner("7").as_str()), (1, LON));
    rig.check();
    let epoch = rig.epoch("7");
    rig.ack("7", LON, epoch);
    assert!(!rig.one("7").elsewhere);
    // Its wish is still there: it goes back if it is moved.
    join(&mut rig, FRA, "fra", &[]);
    rig.report(FRA, 0, &[]);
    move_to(&mut rig, "7", None).unwrap();
    assert_eq!(&*rig.one("7").moving.as_ref().unwrap().cmu, FRA.as_bytes());
    rig.check();
}

#[test]
fn conference_waits_for_its_zone_without_zonefall() {
    let mut rig = lost(None);
    rig.pass(1_700_000);
    assert_eq!(rig.recover(), 0);
    // It may be let go later.
    alter(&mut rig, "7", WishesRequest { zone_fall: Some(1000), ..NONE });
    rig.pass(0);
    assert_eq!(rig.recover(), 1);
    rig.check();
}

#[test]
fn plan_counts_with_a_zone_that_falls_when_the_unit_is_lost() {
    let mut rig = lost(Some(5000));
    // Recovered in its zone, and not open there when the time has passed.
    join(&mut rig, FRA, "fra", &[]);
    rig.report(FRA, 0, &[]);
    assert_eq!((rig.recover(), rig.owner("7").as_str()), (1, FRA));
    let plan = |rig: &Rig| {
        let unit = rig.realm.find_unit(FRA.as_bytes()).unwrap();
        rig.realm.plan_down(unit, rig.now)[0].1.clone().map(|cmu| String::from_utf8(cmu.to_vec()).unwrap())
    };
    assert_eq!(plan(&rig), Err("no room"));
    rig.pass(5000);
    assert_eq!(plan(&rig), Ok(LON.to_owned()));
    rig.down(FRA);
    rig.pass(0);
    assert_eq!((rig.recover(), rig.owner("7").as_str()), (1, LON));
    rig.check();
}

#[test]
fn alter_changes_what_it_names_and_moves_nothing() {
    let mut rig = rig();
    let wishes = WishesRequest {
        zone: Some(Some(b"lon")),
        zone_fall: Some(9),
        require: Some(&[HD]),
        prefer: Some(&[GPU]),
        ..NONE
    };
    create(&mut rig, "1", wishes).unwrap();
    let epoch = rig.epoch("1");
    rig.ack("1", LON, epoch);
    rig.told.clear();
    alter(&mut rig, "1", wishes);
    alter(&mut rig, "1", NONE);
    assert_eq!(rig.told, [""; 0], "nothing changes");
    alter(&mut rig, "1", WishesRequest { zone: Some(None), require: Some(&[]), ..NONE });
    assert_eq!(rig.told, [format!("evt altered 1 {LON} {epoch} open")]);
    let now = &rig.one("1").wishes;
    assert_eq!((&now.zone, now.zone_fall, now.require.len(), now.prefer.len()), (&None, Some(9), 0, 1));
    alter(&mut rig, "1", WishesRequest { zone_fall: Some(0), host: Some(Some(b"fra")), ..NONE });
    let now = &rig.one("1").wishes;
    assert_eq!((now.zone_fall, now.host.as_deref()), (None, Some(&b"fra"[..])));
    move_to(&mut rig, "1", None).unwrap();
    assert_eq!(&*rig.one("1").moving.as_ref().unwrap().cmu, FRA.as_bytes());
    rig.check();
    rig.release("1");
    assert_eq!(alter(&mut rig, "1", wishes), "BADSTATE");
    assert_eq!(alter(&mut rig, "9", wishes), "NOTFOUND");
}

#[test]
fn wishes_out_of_range_are_refused() {
    let mut rig = rig();
    let many: Vec<Vec<u8>> = (0..65).map(|tag| format!("t{tag}").into_bytes()).collect();
    let many: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
    for (wishes, code) in [
        (WishesRequest { zone_fall: Some(-1), ..NONE }, "ERR"),
        (WishesRequest { zone_fall: Some(i64::MAX), ..NONE }, "ERR"),
        (WishesRequest { zone: Some(Some(b"")), ..NONE }, "ERR"),
        (WishesRequest { host: Some(Some(&[b'x'; 257])), ..NONE }, "ERR"),
        (WishesRequest { require: Some(&[b""]), ..NONE }, "ERR"),
        (WishesRequest { prefer: Some(&many), ..NONE }, "LIMIT"),
    ] {
        assert_eq!(placed(&mut rig, "1", wishes), code, "{wishes:?}");
    }
    let join =
        UnitRequest::Join { cmu: b"x:1:1", capacity: 1, zone: None, tags: &many, lease: 1000, machine: None };
    assert_eq!(rig.code(&Request::Unit(join)), "LIMIT");
    let join = UnitRequest::Join {
        cmu: b"x:1:1",
        capacity: 1,
        zone: None,
        tags: &many[..64],
        lease: 1000,
        machine: None,
    };
    assert!(rig.ask(&Request::Unit(join)).is_ok());
}

#[test]
fn pending_conference_is_placed_by_a_move() {
    let mut rig = lost(None);
    // Only where its wishes allow.
    let refusal = move_to(&mut rig, "7", Some(LON)).unwrap_err();
    assert_eq!(
        refusal.text,
        "conference '7' must be in zone 'fra', and unit 'lon:1:1' is another; CONF.ALTER changes that"
    );
    assert_eq!(move_to(&mut rig, "7", None).unwrap_err().code.word(), "LIMIT");
    alter(&mut rig, "7", WishesRequest { zone: Some(None), ..NONE });
    move_to(&mut rig, "7", Some(LON)).unwrap();
    assert_eq!((rig.owner("7").as_str(), rig.state("7")), (LON, State::Creating));
    assert!(rig.one("7").recovering && rig.verbs(LON).ends_with("CREATE"));
    rig.check();
    let epoch = rig.epoch("7");
    rig.ack("7", LON, epoch);
    // The unit that failed it is passed over while there is another, and can be named.
    rig.failed("7", LON, epoch);
    assert_eq!(move_to(&mut rig, "7", None).unwrap_err().code.word(), "LIMIT");
    move_to(&mut rig, "7", Some(LON)).unwrap();
    assert_eq!(rig.owner("7"), LON);
    rig.check();
}

#[test]
fn moves_and_first_tries_keep_to_the_wishes() {
    let mut rig = rig();
    join(&mut rig, "lon2:1:1", "lon", &[]);
    create(&mut rig, "1", WishesRequest { require: Some(&[HD]), ..NONE }).unwrap();
    let epoch = rig.epoch("1");
    // No other unit has the tag, so the creation is not tried elsewhere.
    rig.nack("1", LON, epoch);
    assert_eq!(rig.word("1"), "ended");
    create(&mut rig, "2", WishesRequest { zone: Some(Some(b"lon")), ..NONE }).unwrap();
    let (owner, epoch) = (rig.owner("2"), rig.epoch("2"));
    rig.nack("2", &owner, epoch);
    let other = if owner == LON { "lon2:1:1" } else { LON };
    assert_eq!(rig.owner("2"), other);
    let epoch = rig.epoch("2");
    rig.ack("2", other, epoch);
    let refusal = move_to(&mut rig, "2", Some(FRA)).unwrap_err();
    assert!(refusal.text.contains("be in zone 'lon'"), "{}", refusal.text);
    alter(&mut rig, "2", WishesRequest { host: Some(Some(b"par")), zone: Some(None), ..NONE });
    assert!(move_to(&mut rig, "2", Some(FRA)).unwrap_err().text.contains("be on host 'par'"));
    alter(&mut rig, "2", WishesRequest { host: Some(None), require: Some(&[GPU]), ..NONE });
    assert!(move_to(&mut rig, "2", Some(FRA)).unwrap_err().text.contains("a unit with tag 'gpu'"));
    rig.check();
}
