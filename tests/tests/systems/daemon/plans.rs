//! `allot show create` checks a plan exactly as `SEAT.CREATE` does.

use std::fs;

use allot_tests::daemon::run;
use allot_tests::{RedisServer, Reply};

fn plan(flags: usize, hold_ms: u64) -> String {
    let flags: Vec<String> = (0..flags).map(|number| format!("\"f{number}\"")).collect();
    let seat = format!(r#"{{"label":"1","tier":"t","flags":[{}]}}"#, flags.join(","));
    format!(
        r#"{{"areas":[{{"id":"a","rows":[{{"label":"A","rank":1,"seats":[{seat}]}}]}}],"limits":{{"max_hold_ms":{hold_ms}}}}}"#
    )
}

#[test]
fn plans_are_refused_and_accepted_as_by_the_module() {
    let server = RedisServer::start();
    let file = server.dir().join("plan.json");
    let path = file.to_str().unwrap();
    for (number, (flags, hold_ms)) in
        [(1, 5_000_000_000), (64, 0), (70, 0), (1, 400_000_000_000)].into_iter().enumerate()
    {
        fs::write(&file, plan(flags, hold_ms)).unwrap();
        let reply = server.raw().call(&["SEAT.CREATE", &format!("module{number}"), &plan(flags, hold_ms)]);
        let dry = run(&server, &["show", "check", path]);
        let loaded = run(&server, &["show", "create", &format!("cli{number}"), path]);
        if let Reply::Error(text) = reply {
            let what = text.rsplit(": ").next().unwrap().to_owned();
            assert!(dry.ended(3).err.contains(&what), "{flags} flags, {hold_ms} ms: {text}");
            assert!(loaded.ended(3).err.contains(&what));
        } else {
            dry.ok();
            loaded.ok();
        }
    }
    assert_eq!(server.raw().words("EXISTS cli0 cli1 cli2 cli3"), Reply::Int(2));
}
