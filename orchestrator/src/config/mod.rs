//! Settings: a file, over it the environment, over that flags.

mod check;
mod describe;
mod resolve;
mod sections;
mod sources;
mod span;

pub(crate) use describe::describe;
#[cfg(test)]
pub(crate) use resolve::time_zone;
pub(crate) use resolve::{AccountsConfig, CmuConfig, ConferenceConfig, Config};
pub(crate) use sections::{Given, Role};
pub(crate) use sources::{BookSource, Confirm, RealmSource, RedisSource, Source, TreeSource};
pub(crate) use span::Span;

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;
    use std::path::Path;

    use clap::Parser;

    use super::sources::parse;
    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        given: Given,
    }

    fn flags(line: &str) -> Given {
        Cli::try_parse_from(line.split(' ')).unwrap().given
    }

    fn refused(text: &str) -> String {
        match parse(text) {
            Err(error) => error.to_string(),
            Ok(given) => format!("{:#}", Config::resolve(&given).unwrap_err()),
        }
    }

    #[test]
    fn a_flag_stands_over_the_file() {
        let file = parse("[cmu]\ncapacity = 5\nlease = \"8s\"\n[allotd]\nroles = [\"cmu\"]").unwrap();
        let given = flags("allotd --cmu-capacity 7 --roles conference,data-proxy").over(file);
        let config = Config::resolve(&given).unwrap();
        assert_eq!(config.cmu.capacity, 7);
        assert_eq!(config.cmu.lease.as_secs(), 8);
        assert_eq!(config.roles.into_iter().collect::<Vec<_>>(), [Role::Conference, Role::DataProxy]);
    }

    #[test]
    fn a_length_of_time_without_sense_is_refused_and_nothing_worse() {
        for setting in ["[cmu]\nbeat", "[cmu]\nlease", "[conference]\ntick", "[redis]\ntimeout"] {
            let why = refused(&format!("{setting} = \"500000000000years\""));
            assert!(why.contains("1000 years"), "{why}");
        }
    }

    #[test]
    fn the_example_names_every_setting_and_holds() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/allot.toml");
        let text = fs::read_to_string(&path).unwrap();
        Config::resolve(&parse(&text).unwrap()).unwrap();
        // Also what is commented out is spelt as it must be.
        let mut section = String::new();
        let mut all = Vec::new();
        for line in text.lines() {
            let line = line.trim_start_matches("#:").trim();
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                name.clone_into(&mut section);
            } else if let Some((name, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
                all.push(format!("{section}.{name}"));
            }
        }
        for (section, field, flag, variable) in Given::names() {
            let name = format!("{section}.{}", field.replace('_', "-"));
            assert!(all.contains(&name), "the example lacks {name}");
            assert!(variable.starts_with("ALLOT_"), "{flag}");
        }
        let everything: Vec<&str> =
            text.lines().map(|line| line.strip_prefix("#:").unwrap_or(line)).collect();
        parse(&everything.join("\n")).unwrap();
    }

    /// What docs/allotd.md and the figures there go by; and the example shows what an empty file is.
    #[test]
    fn defaults_are_as_documented() {
        let config = Config::of("");
        let (conference, cmu) = (&config.conference, &config.cmu);
        let times = [cmu.beat, cmu.lease, conference.grace, conference.brake_lift, config.session()];
        assert_eq!(times.map(|time| time.as_secs()), [1, 5, 10, 60, 4]);
        assert_eq!((conference.pace, conference.burst), (50, 10));
        assert_eq!((conference.brake_percent, conference.brake_least, conference.wait_replicas), (30, 2, 1));
        assert_eq!((conference.tick.as_millis(), conference.wait.as_millis()), (250, 100));
        // Lines of these two sections are defaults, but for those of settings that have none.
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/allot.toml");
        let (text, mut shown, mut is_meant) = (fs::read_to_string(&path).unwrap(), String::new(), false);
        for line in text.lines() {
            if line.starts_with('[') {
                is_meant = matches!(line, "[conference]" | "[cmu]");
            }
            let line = line.strip_prefix("#:").unwrap_or(line);
            let has_none = ["host", "zone", "self-stop", "program", "chatter"];
            if is_meant && !has_none.iter().any(|name| line.starts_with(&format!("{name} ="))) {
                let _ = writeln!(shown, "{line}");
            }
        }
        let shown = Config::of(&shown);
        assert_eq!(format!("{:?}", shown.conference), format!("{conference:?}"));
        assert_eq!(format!("{:?}", shown.cmu), format!("{cmu:?}"));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place_and_a_way_out() {
        let cases = [
            ("[cmu]\ncapcity = 5", "line 2"),
            ("[cmu]\nlease = 5", "string"),
            ("[cmu]\nlease = \"5\"", "e.g. 500ms"),
            ("[allotd]\nroles = [\"king\"]", "data-proxy"),
            ("[redis]\nurl = \"redis://a\"\ncluster = [\"a:1\"]", "give one of them"),
            ("[redis]\nsentinels = [\"a:1\"]", "redis.master"),
            ("[redis]\nurl = \"http://a\"", "redis.url"),
            ("[redis]\nurl = \"redis://u:secret@a\"", "password"),
            ("[redis]\ncluster = [\"u:secret@a:1\"]", "redis.password-file"),
            ("[redis]\ntimeout = \"4s\"", "2s at most"),
            ("[cmu]\nbeat = \"4s\"", "half of the lease"),
            ("[cmu]\nself-stop = \"1s\"", "two beats"),
            ("[cmu]\nhost = \"a b\"", "without spaces"),
            ("[cmu]\ncapacity = 1000000001", "1000000000"),
            ("[cmu]\nlease = \"11years\"", "10years"),
            ("[cmu]\nlease = \"999us\"\nbeat = \"1us\"\n[redis]\ntimeout = \"1us\"", "1ms"),
            ("[cmu]\nzone = \"\"", "256 bytes"),
            ("[zookeeper]\nservers = \"a:1\"\nuser = \"u\"", "ALLOT_ZOOKEEPER_PASSWORD"),
            ("[zookeeper]\nroot = \"allot\"", "/allot"),
            ("[redis]\npassword-file = \"/nowhere/at/all\"", "/nowhere/at/all"),
            ("[data-proxy]\nbatch = 0", "1 to 10000"),
            ("[compaction]\nlimit = 4000000000", "1000000 at most"),
            ("[accounts]\ntime-zone = \"Berlin\"", "Europe/Berlin"),
            ("[accounts]\nroot = \"resource\"", "/resource"),
            ("[accounts]\nwait = \"2s\"", "redis.timeout"),
        ];
        for (text, part) in cases {
            let refused = refused(text);
            assert!(refused.contains(part), "{text}\n{refused}");
            assert!(!refused.contains("secret@"), "{refused}");
        }
    }

    #[test]
    fn a_scheduler_that_seems_to_sleep_is_refused_with_a_zookeeper_and_without() {
        let check = |text: &str| Config::of(text).check_roles().map_err(|error| error.to_string());
        let scheduler = "[allotd]\nroles = [\"conference\"]\n[conference]\ntick =";
        assert!(check(&format!("{scheduler} \"5s\"")).unwrap_err().contains("2s at most"));
        assert_eq!(check(&format!("{scheduler} \"2s\"")), Ok(()));
        // Who plays another role may read the same file, and ask somebody else for the ZooKeeper.
        assert_eq!(check("[allotd]\nroles = [\"cmu\"]\n[conference]\ntick = \"5s\""), Ok(()));
        let slow = "[zookeeper]\nservers = \"a:1\"\nsession = \"10s\"\n";
        assert_eq!(check(&format!("{slow}{scheduler} \"5s\"")), Ok(()));
        assert!(refused(&format!("{slow}{scheduler} \"6s\"")).contains("5s at most"));
    }

    #[test]
    fn unknown_time_zone_is_refused_with_an_example() {
        assert!(time_zone("Berlin").unwrap_err().to_string().contains("Europe/Berlin"));
    }

    #[test]
    fn a_secret_is_never_shown() {
        let dir = std::env::temp_dir().join(format!("allot-secret-{}", std::process::id()));
        fs::write(&dir, "wonder\n").unwrap();
        let text = format!("[redis]\nuser = \"u\"\npassword-file = \"{}\"", dir.display());
        let config = Config::resolve(&parse(&text).unwrap()).unwrap();
        fs::remove_file(dir).unwrap();
        assert!(!format!("{config:?}{}", describe(&config)).contains("wonder"));
        assert!(describe(&config).contains("as u"));
    }
}
