//! The settings of `allot`: options, then the environment, then the files `--config`, `~/.config/allot/config.toml` and
//! `/etc/allot/config.toml`. They name servers; they are not the settings of the daemon.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use allot_client::{Endpoint, Secret, Servers};
use allot_coordination::zookeeper::{ConnectString, ZooKeeper};
use clap::Args;
use serde::Deserialize;

use crate::failure::{Cause, Failure, Result};
use crate::output::Format;
use crate::time;

/// The server that is meant if none is named.
const LOCAL: &str = "redis://127.0.0.1:6379";
/// The variable that names the server.
pub(crate) const SERVER: &str = "ALLOT_SERVER";
/// The time limit if none is named.
const LIMIT: Duration = Duration::from_secs(10);

/// Defines the settings of a server: field, key in the file, variable, example, meaning.
macro_rules! server_settings {
    ($($field:ident $key:literal $variable:literal $example:literal $meaning:literal;)*) => {
        /// The settings of one server, as given.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
        pub(crate) struct Server {
            $( pub(crate) $field: Option<String>, )*
        }

        impl Server {
            /// Key, variable, example and meaning of each setting.
            pub(crate) const ALL: &'static [(&'static str, &'static str, &'static str, &'static str)] =
                &[$(($key, $variable, $example, $meaning)),*];

            /// These settings; an absent one is taken from `under`.
            fn over(self, under: Self) -> Self {
                Self { $( $field: self.$field.or(under.$field), )* }
            }

            fn from_environment() -> Self {
                let get = |name: &str| env::var(name).ok().filter(|value| !name.is_empty() && !value.is_empty());
                Self { $( $field: get($variable), )* }
            }

            /// Key and value of each setting that is given.
            pub(crate) fn given(&self) -> Vec<(&'static str, &str)> {
                let all = [$(($key, self.$field.as_deref())),*];
                all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
            }
        }
    };
}

server_settings! {
    url "url" "" "redis://10.0.0.1:6379" "redis://HOST:PORT, rediss:// for TLS, redis+sentinel://HOST:PORT,HOST:PORT/MASTER, redis+cluster://HOST:PORT,HOST:PORT";
    user "user" "ALLOT_USER" "operator" "ACL user";
    password_file "password-file" "ALLOT_PASSWORD_FILE" "/etc/allot/password" "file with the password in its first line; or ALLOT_PASSWORD, the password itself";
    sentinel_password_file "sentinel-password-file" "ALLOT_SENTINEL_PASSWORD_FILE" "/etc/allot/sentinel-password" "file with the password of the Sentinels; or ALLOT_SENTINEL_PASSWORD";
    ca_file "ca-file" "ALLOT_CA_FILE" "/etc/allot/ca.pem" "certificates (PEM) that must have signed the server's";
    zookeeper "zookeeper" "ALLOT_ZOOKEEPER" "10.0.0.1:2181,10.0.0.2:2181" "servers of ZooKeeper, for tasks and nodes";
    zookeeper_user "zookeeper-user" "ALLOT_ZOOKEEPER_USER" "allot" "user of digest authentication";
    zookeeper_password_file "zookeeper-password-file" "ALLOT_ZOOKEEPER_PASSWORD_FILE" "/etc/allot/zookeeper-password" "file with this user's password; or ALLOT_ZOOKEEPER_PASSWORD";
    zookeeper_sasl "zookeeper-sasl" "ALLOT_ZOOKEEPER_SASL" "true" "true: sign in by SASL, not by digest authentication";
    zookeeper_ca_file "zookeeper-ca-file" "ALLOT_ZOOKEEPER_CA_FILE" "/etc/allot/zookeeper-ca.pem" "certificates (PEM) that must have signed ZooKeeper's; switches TLS on";
    zookeeper_cert_file "zookeeper-cert-file" "ALLOT_ZOOKEEPER_CERT_FILE" "/etc/allot/zookeeper-cert.pem" "own certificate (PEM), if ZooKeeper asks for one";
    zookeeper_key_file "zookeeper-key-file" "ALLOT_ZOOKEEPER_KEY_FILE" "/etc/allot/zookeeper-key.pem" "key (PEM) of this certificate";
    compaction_root "compaction-root" "ALLOT_COMPACTION_ROOT" "/cluster.compact/Compaction_v2" "path of the tasks in ZooKeeper";
    accounts_root "accounts-root" "ALLOT_ACCOUNTS_ROOT" "/resource" "path in ZooKeeper where systems that use accounts register";
    realm "realm" "ALLOT_REALM" "{allot}:conf" "key of the realm of conferences";
    book "book" "ALLOT_BOOK" "{allot}:accounts" "key of the book of accounts";
    wait_replicas "wait-replicas" "ALLOT_WAIT_REPLICAS" "1" "replicas that must confirm a change of owner";
    wait "wait" "ALLOT_WAIT" "100ms" "time limit of this confirmation";
}

/// A file of settings.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    server: Option<String>,
    format: Option<String>,
    utc: Option<bool>,
    limit_time: Option<String>,
    servers: BTreeMap<String, Server>,
}

/// The settings of a command.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Names and settings of the servers in the files.
    pub(crate) named: BTreeMap<String, Server>,
    /// The name of the server in use; `None` for an address.
    pub(crate) name: Option<String>,
    /// What names the server in use: an option, a variable, a file, or nothing.
    pub(crate) named_by: String,
    pub(crate) server: Server,
    pub(crate) format: Format,
    pub(crate) utc: bool,
    pub(crate) limit: Duration,
    /// The files that exist, the one that overrides the others first.
    pub(crate) files: Vec<PathBuf>,
}

/// The user's own file.
pub(crate) fn own_file() -> Option<PathBuf> {
    let given = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = given("XDG_CONFIG_HOME").or_else(|| given("HOME").map(|home| home.join(".config")));
    folder.map(|folder| folder.join("allot/config.toml"))
}

fn read(path: &Path) -> Result<File> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| Failure::file(Cause::Input, &name, &error))?;
    let hint = "allot config example prints all settings; those of the daemon are in a file of its own";
    toml::from_str(&text)
        .map_err(|error| Failure::input(format!("{name}: {}", error.to_string().trim_end())).hint(hint))
}

/// Options that the settings are made of.
#[derive(Debug, Default, Args)]
pub(crate) struct Given {
    /// The server: a name of the settings, HOST, HOST:PORT, or an address such as redis://HOST:PORT
    #[arg(long, global = true, value_name = "NAME|URL")]
    pub(crate) server: Option<String>,
    /// File of settings, over ~/.config/allot/config.toml and /etc/allot/config.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Servers of ZooKeeper, HOST:PORT with commas between
    #[arg(long, global = true, value_name = "SERVERS")]
    pub(crate) zookeeper: Option<String>,
    /// Form of the output
    #[arg(long, global = true, value_enum, env = "ALLOT_FORMAT", hide_env = true)]
    pub(crate) format: Option<Format>,
    /// Times in UTC also at a terminal
    #[arg(long, global = true)]
    pub(crate) utc: bool,
    /// Time limit of each answer [default: 10s]
    #[arg(long, global = true, value_name = "TIME", value_parser = time::limit, env = "ALLOT_LIMIT_TIME", hide_env = true)]
    pub(crate) limit_time: Option<Duration>,
}

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// A file cannot be read or is wrong, or the server that is named is in no file.
    pub(crate) fn load(given: &Given) -> Result<Self> {
        let usual = own_file().into_iter().chain([PathBuf::from("/etc/allot/config.toml")]);
        let files: Vec<PathBuf> =
            given.config.clone().into_iter().chain(usual.filter(|path| path.exists())).collect();
        let (mut all, mut file) = (File::default(), String::new());
        for path in &files {
            let under = read(path)?;
            for (name, server) in under.servers {
                let own = all.servers.remove(&name).unwrap_or_default();
                all.servers.insert(name, own.over(server));
            }
            if all.server.is_none() && under.server.is_some() {
                (all.server, file) = (under.server, path.display().to_string());
            }
            all.format = all.format.or(under.format);
            all.utc = all.utc.or(under.utc);
            all.limit_time = all.limit_time.or(under.limit_time);
        }
        // An empty variable is none. An empty option is refused as a slip: another server would be meant.
        let variable = env::var_os(SERVER).filter(|name| !name.is_empty());
        let variable = variable.map(|name| name.to_string_lossy().into_owned());
        let named = given.server.clone().or(variable);
        let named_by = match (&named, &all.server) {
            (Some(_), _) if given.server.is_none() => SERVER.to_owned(),
            (Some(_), _) => "--server".to_owned(),
            // Where servers have names, a word is one, and not a host.
            (None, Some(name))
                if !all.servers.is_empty()
                    && !name.contains([':', '.'])
                    && !all.servers.contains_key(name) =>
            {
                let why =
                    format!("{file}: server = \"{name}\", and no file of settings has [servers.{name}]");
                let hint = format!("{}; a host: {name}:6379", names_of(&all.servers));
                return Err(Failure::input(why).hint(hint));
            }
            (None, Some(_)) => file,
            (None, None) => "no option, variable or file; this is the default".to_owned(),
        };
        let wanted = named.or(all.server);
        let (name, server) = match wanted {
            None => (None, Server::default()),
            Some(wanted) => match all.servers.get(&wanted) {
                Some(server) => (Some(wanted), server.clone()),
                None => (None, Server { url: Some(wanted), ..Server::default() }),
            },
        };
        let environment = Server { zookeeper: given.zookeeper.clone(), ..Server::default() };
        let server = environment.over(Server::from_environment()).over(server);
        let wrong = |key: &str, why: String| Failure::input(format!("{key} in a file of settings: {why}"));
        let format = match (given.format, &all.format) {
            (Some(format), _) => format,
            (None, Some(text)) => {
                clap::ValueEnum::from_str(text, false).map_err(|why| wrong("format", why))?
            }
            (None, None) => Format::default(),
        };
        let limit = all.limit_time.as_deref().map(time::limit).transpose();
        let limit = given.limit_time.or(limit.map_err(|why| wrong("limit-time", why))?).unwrap_or(LIMIT);
        let utc = given.utc || all.utc.unwrap_or(false);
        Ok(Self { named: all.servers, name, named_by, server, format, utc, limit, files })
    }

    /// What to say if the server in use cannot be reached, and is called by a word that may be meant as a name.
    pub(crate) fn missing_name(&self) -> Option<String> {
        let word =
            self.server.url.as_deref().filter(|url| self.name.is_none() && !url.contains([':', '.']))?;
        Some(format!("'{word}' was taken for a host; {}", names_of(&self.named)))
    }

    /// Key of the realm.
    pub(crate) fn realm(&self) -> String {
        self.server.realm.clone().unwrap_or_else(|| "{allot}:conf".to_owned())
    }

    /// Key of the book.
    pub(crate) fn book(&self) -> String {
        self.server.book.clone().unwrap_or_else(|| "{allot}:accounts".to_owned())
    }

    /// How many replicas must confirm a change of owner, and within which time.
    pub(crate) fn confirmation(&self) -> Result<(u32, Duration)> {
        let count = self.server.wait_replicas.as_deref().unwrap_or("1");
        let count =
            count.parse().map_err(|_| Failure::input(format!("wait-replicas '{count}' is no number")))?;
        let wait = time::span(self.server.wait.as_deref().unwrap_or("100ms"));
        let wait = wait.map_err(|why| Failure::input(format!("wait: {why}")))?;
        Ok((count, wait.min(self.limit)))
    }

    /// The way to the master of a key.
    pub(crate) fn servers(&self, key: &str) -> Result<Servers> {
        let url = self.server.url.as_deref().unwrap_or(LOCAL);
        let (endpoint, url_user) = endpoint(url, self)?;
        let user = self.server.user.clone().or(url_user);
        let password = secret(self.server.password_file.as_deref(), "ALLOT_PASSWORD")?;
        let sentinel_password =
            secret(self.server.sentinel_password_file.as_deref(), "ALLOT_SENTINEL_PASSWORD")?;
        let ca = self
            .server
            .ca_file
            .as_deref()
            .map(|path| fs::read(path).map_err(|error| Failure::file(Cause::Input, path, &error)));
        let (ca, timeout) = (ca.transpose()?, self.limit);
        Ok(Servers { user, password, sentinel_password, ca, timeout, ..Servers::new(endpoint, key) })
    }

    /// The way to ZooKeeper at these servers: TLS, and a user by SASL or digest authentication.
    pub(crate) fn ensemble(&self, servers: ConnectString, session: Duration) -> Result<ZooKeeper> {
        let server = &self.server;
        let mut ensemble = ZooKeeper::new(servers, session);
        let by_sasl = match server.zookeeper_sasl.as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                return Err(Failure::input(format!("zookeeper-sasl is '{other}', and not true or false")));
            }
        };
        if let Some(user) = &server.zookeeper_user {
            let password = secret(server.zookeeper_password_file.as_deref(), "ALLOT_ZOOKEEPER_PASSWORD")?;
            let Some(password) = password else {
                return Err(Failure::input(format!("the user {user} of ZooKeeper has no password"))
                    .hint("name a file by ALLOT_ZOOKEEPER_PASSWORD_FILE"));
            };
            ensemble = ensemble.with_user(user, password.reveal(), by_sasl);
        } else if by_sasl {
            return Err(Failure::input("zookeeper-sasl is set without zookeeper-user"));
        }
        let pem = |path: Option<&String>| {
            let read = |path: &String| {
                fs::read_to_string(path).map_err(|error| Failure::file(Cause::Input, path, &error))
            };
            path.map(read).transpose()
        };
        let ca = pem(server.zookeeper_ca_file.as_ref())?;
        let cert = pem(server.zookeeper_cert_file.as_ref())?;
        let key = pem(server.zookeeper_key_file.as_ref())?;
        let secured = ensemble.with_tls(ca.as_deref(), cert.as_deref(), key.as_deref());
        secured.map_err(|why| Failure::input(format!("TLS to ZooKeeper: {why}")))
    }
}

/// The way to the master by an address, a host or `host:port`, and the user in it.
fn endpoint(url: &str, settings: &Settings) -> Result<(Endpoint, Option<String>)> {
    let password =
        "the variable ALLOT_PASSWORD_FILE names the file with the password, and ALLOT_USER the user";
    let names = names_of(&settings.named);
    // A word that is no address may be meant as a name.
    let is_host = !url.contains("://") && !url.contains(['/', '@']) && !url.is_empty();
    let (address, hint) = match url.contains('@') {
        true => (url.to_owned(), password),
        false if is_host => (format!("redis://{url}"), names.as_str()),
        false => (url.to_owned(), names.as_str()),
    };
    Endpoint::url(&address).map_err(|error| Failure::usage(error.to_string()).hint(hint))
}

/// The names of the servers in the files.
pub(crate) fn names_of(servers: &BTreeMap<String, Server>) -> String {
    let names: Vec<&str> = servers.keys().map(String::as_str).collect();
    match names.as_slice() {
        [] => "no file of settings names a server: allot config example".to_owned(),
        names => format!("named servers: {}", names.join(", ")),
    }
}

/// A secret from the first line of a file, or from the environment.
fn secret(file: Option<&str>, variable: &str) -> Result<Option<Secret>> {
    let text = match file {
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|error| Failure::file(Cause::Input, path, &error))?;
            text.lines().next().unwrap_or_default().to_owned()
        }
        None => match env::var(variable) {
            Ok(text) if !text.is_empty() => text,
            _ => return Ok(None),
        },
    };
    let empty = || Failure::input(format!("the password in {} is empty", file.unwrap_or(variable)));
    if text.is_empty() { Err(empty()) } else { Ok(Some(Secret::new(text))) }
}

/// A file with all settings.
pub(crate) fn example() -> String {
    let mut text = "# Settings of allot, in ~/.config/allot/config.toml or /etc/allot/config.toml.\n\n\
        # The server that is meant if --server and ALLOT_SERVER name none: a name below, or an address.\n\
        server = \"local\"\n# table, wide, json, jsonl or csv\nformat = \"table\"\n\
        # Times in UTC also at a terminal\nutc = false\n# Time limit of each answer\nlimit-time = \"10s\"\n\n\
        [servers.local]\nurl = \"redis://127.0.0.1:6379\"\n\n[servers.production]\n"
        .to_owned();
    for (key, _, example, meaning) in Server::ALL {
        let _ = writeln!(text, "# {meaning}\n{key} = \"{example}\"");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, server: Option<&str>) -> Result<Servers> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        Settings::load(&Given {
            server: server.map(str::to_owned),
            config: Some(file.path().to_owned()),
            ..Given::default()
        })?
        .servers("k")
    }

    #[test]
    fn servers_are_named_by_their_name_or_an_address() {
        let named = "server = \"a\"\n[servers.a]\nurl = \"redis://h:7\"\n[servers.b]\nurl = \"rediss+sentinel://s:1,t:2/m\"";
        let shown = |server| of(named, server).unwrap().to_string();
        assert_eq!(shown(None), "redis://h:7");
        assert_eq!(shown(Some("b")), "master 'm' by Sentinels s:1, t:2");
        assert_eq!(shown(Some("localhost")), "redis://localhost:6379");
        assert_eq!(shown(Some("host:7")), "redis://host:7");
        assert_eq!(shown(Some("redis+cluster://a:1,b:2")), "cluster at a:1, b:2");
    }

    #[test]
    fn wrong_settings_are_refused_and_no_password_is_shown() {
        for (text, server, part) in [
            ("[servers.a]\nurls = \"x\"", None, "line 2"),
            ("format = \"xml\"", None, "format"),
            ("limit-time = \"5\"", None, "limit-time"),
            ("[redis]\nurl = \"redis://h\"", None, "settings"),
            ("", Some("redis://u:secret@h"), "password"),
            ("", Some("redis+cluster://u:secret@h:1"), "password"),
            ("", Some("u:secret@h"), "no address"),
            ("", Some("redis+sentinel://h:1"), "MASTER"),
        ] {
            let failure = of(text, server).unwrap_err();
            let shown = format!("{} {}", failure.message, failure.hint.unwrap_or_default());
            assert!(shown.contains(part) && !shown.contains("secret"), "{text} {server:?}: {shown}");
        }
    }

    #[test]
    fn example_has_every_setting() {
        let file: File = toml::from_str(&example()).unwrap();
        assert_eq!(file.servers.get("production").unwrap().given().len(), Server::ALL.len());
    }
}
