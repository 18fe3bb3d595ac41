//! Settings from a file, the environment and flags.

mod check;
mod describe;
mod ready;
mod resolve;
pub mod sections;
mod sources;

pub use describe::describe;
pub use ready::Ready;
pub use resolve::Config;
pub use sections::{AccountsConfig, Given, MediaUnitConfig, Role, SchedulerConfig};
pub use sources::{Source, load, read};
#[cfg(test)]
#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        given: Given,
    }

    fn parse(text: &str) -> Result<Given, toml::de::Error> {
        toml::from_str(text)
    }

    fn flags(line: &str) -> Given {
        Cli::try_parse_from(line.split(' ')).unwrap().given
    }

    fn refused(text: &str) -> String {
        match parse(text) {
            Err(error) => error.to_string(),
            Ok(mut given) => {
                given
                    .process
                    .roles
                    .get_or_insert_with(|| vec![Role::Scheduler, Role::MediaUnit, Role::Accounts]);
                given.zookeeper.servers.get_or_insert_with(|| "a:1".to_owned());
                let checked = Config::resolve(&given).and_then(|config| config.check_roles());
                format!("{:#}", checked.unwrap_err())
            }
        }
    }

    #[test]
    fn flag_overrides_the_file() {
        let file =
            parse("[media-unit]\ncapacity = 5\nlease = \"8s\"\n[allotd]\nroles = [\"media-unit\"]").unwrap();
        let given = flags("allotd --media-unit-capacity 7 --roles scheduler,data-proxy").over(file);
        let config = Config::resolve(&given).unwrap();
        assert_eq!(config.media_unit.capacity, 7);
        assert_eq!(config.media_unit.lease.as_secs(), 8);
        assert_eq!(config.roles.into_iter().collect::<Vec<_>>(), [Role::Scheduler, Role::DataProxy]);
    }

    #[test]
    fn absurd_length_of_time_is_refused() {
        for setting in ["[media-unit]\nbeat", "[media-unit]\nlease", "[scheduler]\ntick", "[redis]\ntimeout"]
        {
            let why = refused(&format!("{setting} = \"500000000000years\""));
            assert!(why.contains("1000 years"), "{why}");
        }
    }

    #[test]
    fn example_holds_as_it_is_and_with_everything_switched_on() {
        let text = Given::example();
        let config = Config::of(&text).unwrap();
        config.check_roles().unwrap();
        assert_eq!(
            config.roles.iter().map(|role| role.name()).collect::<Vec<_>>(),
            ["scheduler", "data-proxy", "media-unit"]
        );
        let all: Vec<&str> = text.lines().map(|line| line.strip_prefix("#:").unwrap_or(line)).collect();
        let given = parse(&all.join("\n")).unwrap();
        // No setting is missing from the example file.
        assert!(!format!("{given:?}").contains("None"), "{given:?}");
    }

    #[test]
    fn only_the_settings_of_the_roles_played_are_checked() {
        let short = "[redis]\ntimeout = \"400ms\"\n";
        let check = |text: &str| Config::of(text).unwrap().check_roles().map_err(|error| error.to_string());
        for role in ["scheduler", "data-proxy", "media-unit"] {
            assert_eq!(check(&format!("{short}[allotd]\nroles = [\"{role}\"]")), Ok(()), "{role}");
        }
        let accounts = format!("{short}[zookeeper]\nservers = \"a:1\"\n[allotd]\nroles = [\"accounts\"]");
        assert!(check(&accounts).unwrap_err().contains("accounts.wait is 500ms"));
        let long = "[redis]\ntimeout = \"1m\"\n[allotd]\nroles =";
        assert_eq!(check(&format!("{long} [\"data-proxy\"]")), Ok(()));
        assert!(check(&format!("{long} [\"media-unit\"]")).unwrap_err().contains("2s at most"));
    }

    /// The defaults on which docs/deploy.md and its figures rely.
    #[test]
    fn defaults_are_as_documented() {
        let config = Config::of("").unwrap();
        let (scheduler, unit) = (&config.scheduler, &config.media_unit);
        let times = [unit.beat, unit.lease, scheduler.grace, scheduler.guard_lift, config.session()];
        assert_eq!(times.map(|time| time.as_secs()), [1, 5, 10, 60, 4]);
        assert_eq!((scheduler.pace, scheduler.burst), (50, 10));
        assert_eq!((scheduler.guard_percent, scheduler.guard_units, scheduler.wait_replicas), (30, 4, 1));
        assert_eq!((scheduler.tick.as_millis(), scheduler.wait.as_millis()), (250, 100));
    }

    #[test]
    fn wrong_setting_is_refused_with_its_name_and_a_remedy() {
        let cases = [
            ("[media-unit]\ncapcity = 5", "line 2"),
            ("[zookeeper]\nservers = \"127.0.0.1:99999\"", "zookeeper.servers: '127.0.0.1:99999'"),
            ("[zookeeper]\nservers = \"a:1/app,b:1/app\"", "once, after the last server"),
            ("[media-unit]\nlease = 5", "string"),
            ("[media-unit]\nlease = \"5\"", "e.g. 500ms"),
            ("[allotd]\nroles = [\"king\"]", "data-proxy"),
            (
                "[redis]\nurl = \"redis+sentinel://a:1\"",
                "redis.url: 'redis+sentinel://a:1' does not end with the name",
            ),
            ("[redis]\nurl = \"http://a\"", "redis.url"),
            ("[redis]\nurl = \"redis://u:secret@a\"", "password"),
            ("[redis]\nurl = \"redis+cluster://u:secret@a:1\"", "password-file"),
            ("[redis]\ntimeout = \"4s\"", "2s at most"),
            ("[media-unit]\nbeat = \"4s\"", "half of the lease"),
            ("[media-unit]\nhost = \"a b\"", "without spaces"),
            ("[media-unit]\ncapacity = 1000000001", "1000000000"),
            ("[media-unit]\nlease = \"11years\"", "10years"),
            ("[media-unit]\nlease = \"999us\"\nbeat = \"1us\"\n[redis]\ntimeout = \"1us\"", "1ms"),
            ("[media-unit]\nzone = \"\"", "256 bytes"),
            ("[zookeeper]\nservers = \"a:1\"\nuser = \"u\"", "ALLOT_ZOOKEEPER_PASSWORD"),
            ("[zookeeper]\nroot = \"allot\"", "/allot"),
            ("[redis]\npassword-file = \"/nowhere/at/all\"", "/nowhere/at/all"),
            ("[data-proxy]\nbatch = 0", "1 to 10000"),
            ("[compaction]\nlimit = 4000000000", "0 to 1000000"),
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
    fn scheduler_with_a_tick_longer_than_half_a_session_is_refused() {
        let check = |text: &str| Config::of(text).unwrap().check_roles().map_err(|error| error.to_string());
        let scheduler = "[allotd]\nroles = [\"scheduler\"]\n[scheduler]\ntick =";
        assert!(check(&format!("{scheduler} \"5s\"")).unwrap_err().contains("2s at most"));
        assert_eq!(check(&format!("{scheduler} \"2s\"")), Ok(()));
        // A process with another role may read the same file, and need no ZooKeeper.
        assert_eq!(check("[allotd]\nroles = [\"media-unit\"]\n[scheduler]\ntick = \"5s\""), Ok(()));
        let slow = "[zookeeper]\nservers = \"a:1\"\nsession = \"10s\"\n";
        assert_eq!(check(&format!("{slow}{scheduler} \"5s\"")), Ok(()));
        assert!(refused(&format!("{slow}{scheduler} \"6s\"")).contains("5s at most"));
    }

    #[test]
    fn programs_inherit_no_variable_with_a_secret() {
        // These settings make the process look for every secret. The function that reads secrets asserts for each
        // variable that programs do not inherit the variable.
        let text = "[zookeeper]\nservers = \"a:1\"";
        Config::resolve(&parse(text).unwrap()).unwrap();
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
