//! The settings of the console, and the keys and paths that it shows.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use allot_client::{Secret, Servers};
use allot_runtime::section;
use allot_runtime::settings::secret;
use anyhow::{Result, bail, ensure};

section! {
    /// The web console.
    Section "console" => Given {
        /// Address and port of the console. An address that is not loopback needs both token files
        listen: SocketAddr = "console-listen", "ALLOT_CONSOLE_LISTEN", default "127.0.0.1:8470";
        /// Addresses of the console as browsers write them, if they differ from `listen`: behind a proxy, by a name, or
        /// if `listen` is 0.0.0.0. Requests to other names are refused
        #[arg(value_delimiter = ',')]
        origins: Vec<String> = "console-origins", "ALLOT_CONSOLE_ORIGINS", list r#"["https://allot.example.com"]"#;
        /// Addresses of proxies before the console, whose header X-Forwarded-For says who sends a request
        #[arg(value_delimiter = ',')]
        proxies: Vec<IpAddr> = "console-proxies", "ALLOT_CONSOLE_PROXIES", list r#"["10.0.0.4"]"#;
        /// File with the token of people who may look, in its first line; at least 16 bytes
        viewer_token_file: PathBuf = "console-viewer-token-file", "ALLOT_CONSOLE_VIEWER_TOKEN_FILE", example r#""/etc/allot/viewer-token""#;
        /// File with the token of people who may also act
        operator_token_file: PathBuf = "console-operator-token-file", "ALLOT_CONSOLE_OPERATOR_TOKEN_FILE", example r#""/etc/allot/operator-token""#;
        /// Folder of this console alone, in which it keeps its history over a restart. Without it, the history is in memory
        data_dir: PathBuf = "console-data-dir", "ALLOT_CONSOLE_DATA_DIR", example r#""/var/lib/allot/console""#;
        /// ACL user of Redis for everything that the console reads. Without it, redis.user
        viewer_user: String = "console-viewer-user", "ALLOT_CONSOLE_VIEWER_USER", example r#""viewer""#;
        /// File with the password of `viewer-user`
        viewer_password_file: PathBuf = "console-viewer-password-file", "ALLOT_CONSOLE_VIEWER_PASSWORD_FILE", example r#""/etc/allot/viewer-password""#;
        /// ACL user of Redis for actions. Without it, redis.user
        operator_user: String = "console-operator-user", "ALLOT_CONSOLE_OPERATOR_USER", example r#""operator""#;
        /// File with the password of `operator-user`
        operator_password_file: PathBuf = "console-operator-password-file", "ALLOT_CONSOLE_OPERATOR_PASSWORD_FILE", example r#""/etc/allot/operator-password""#;
        /// File with the certificate chain (PEM); with tls-key, the console speaks HTTPS
        tls_cert: PathBuf = "console-tls-cert", "ALLOT_CONSOLE_TLS_CERT", example r#""/etc/allot/console.pem""#;
        /// File with the key of the certificate (PEM)
        tls_key: PathBuf = "console-tls-key", "ALLOT_CONSOLE_TLS_KEY", example r#""/etc/allot/console-key.pem""#;
    }
}

/// Shortest token, in bytes: a token is guessed at network speed.
const SHORTEST_TOKEN: usize = 16;

/// How the console is reached, and by whom.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address of the listener.
    pub listen: SocketAddr,
    /// Addresses of the console as browsers write them, in addition to `listen`: `https://allot.example.com`.
    pub origins: Vec<String>,
    /// Addresses of proxies that say in `X-Forwarded-For` who sends a request.
    pub proxies: Vec<IpAddr>,
    /// Token of people who may look.
    pub viewer_token: Option<Secret>,
    /// Token of people who may also act.
    pub operator_token: Option<Secret>,
    /// The folder in which the console keeps its history; without it, the history is in memory.
    pub data_dir: Option<PathBuf>,
    /// The way to Redis for reads.
    pub viewer: Servers,
    /// The way to Redis for actions.
    pub operator: Servers,
    /// Files with the certificate chain and its key; without them the console speaks plain HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// The keys and paths that the settings of a process name. Other keys are found in Redis.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Key of the realm.
    pub realm: String,
    /// Key of the book of accounts.
    pub book: String,
    /// The node of ZooKeeper by which the leader of the book is notified of changes.
    pub accounts_notify: String,
    /// The election of each role that has a leader, by the name of the role.
    pub elections: [(&'static str, String); 2],
    /// Replicas that must confirm a change of owner.
    pub wait_replicas: u32,
    /// Time limit of the wait for replicas.
    pub wait: Duration,
}

impl Settings {
    /// The settings that a section gives. A user of the console's own has a password of its own; without such a user, the
    /// user of `servers` and its password count.
    ///
    /// # Errors
    /// A file that cannot be read, or a setting without another one that it needs.
    pub fn of(section: &Section, servers: &Servers) -> Result<Self> {
        let given = section.resolve()?;
        let login = |user: Option<String>, file: Option<&Path>, name, variable| -> Result<Servers> {
            let Some(user) = user else { return Ok(servers.clone()) };
            Ok(Servers { user: Some(user), password: secret(file, name, variable)?, ..servers.clone() })
        };
        Ok(Self {
            listen: given.listen,
            origins: given.origins,
            proxies: given.proxies,
            viewer_token: secret(
                given.viewer_token_file.as_deref(),
                "console.viewer-token-file",
                "ALLOT_CONSOLE_VIEWER_TOKEN",
            )?,
            operator_token: secret(
                given.operator_token_file.as_deref(),
                "console.operator-token-file",
                "ALLOT_CONSOLE_OPERATOR_TOKEN",
            )?,
            data_dir: given.data_dir,
            viewer: login(
                given.viewer_user,
                given.viewer_password_file.as_deref(),
                "console.viewer-password-file",
                "ALLOT_CONSOLE_VIEWER_PASSWORD",
            )?,
            operator: login(
                given.operator_user,
                given.operator_password_file.as_deref(),
                "console.operator-password-file",
                "ALLOT_CONSOLE_OPERATOR_PASSWORD",
            )?,
            tls: match (given.tls_cert, given.tls_key) {
                (Some(cert), Some(key)) => Some((cert, key)),
                (None, None) => None,
                _ => bail!("console.tls-cert and console.tls-key belong together; give both, or none"),
            },
        })
    }

    /// The address of the console in a browser.
    pub fn address(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.origins.first().cloned().unwrap_or_else(|| format!("{scheme}://{}", self.listen))
    }

    /// Checks that nobody can reach the console without a token, and that its names are known.
    ///
    /// # Errors
    /// The setting that is missing or wrong, with its remedy.
    pub fn check(&self) -> Result<()> {
        for (token, name) in [(&self.viewer_token, "viewer"), (&self.operator_token, "operator")] {
            let short = token.as_ref().is_some_and(|token| token.reveal().len() < SHORTEST_TOKEN);
            ensure!(
                !short,
                "the token of console.{name}-token-file is shorter than {SHORTEST_TOKEN} bytes; write a longer one, \
                 e.g. the output of: openssl rand -hex 32"
            );
        }
        ensure!(
            self.listen.ip().is_loopback() || self.viewer_token.is_some() && self.operator_token.is_some(),
            "console.listen is {}, which is not loopback: set console.viewer-token-file and \
             console.operator-token-file, or listen on 127.0.0.1",
            self.listen
        );
        ensure!(
            !self.listen.ip().is_unspecified() || !self.origins.is_empty(),
            "console.listen is {}, which is no name that a browser can use: set console.origins, e.g. \
             https://allot.example.com",
            self.listen
        );
        for origin in &self.origins {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            ensure!(
                host.is_some_and(|host| !host.is_empty() && !host.contains('/')),
                "console.origins has '{origin}'; write an address as https://allot.example.com, without a path"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use allot_client::Endpoint;

    use super::*;

    fn settings(listen: &str) -> Settings {
        let (endpoint, _) = Endpoint::url("redis://h:1").unwrap();
        let servers = Servers::new(endpoint, "k");
        Settings {
            listen: listen.parse().unwrap(),
            origins: Vec::new(),
            proxies: Vec::new(),
            viewer_token: None,
            operator_token: None,
            data_dir: None,
            viewer: servers.clone(),
            operator: servers,
            tls: None,
        }
    }

    fn token(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    #[test]
    fn open_address_without_tokens_is_refused() {
        settings("127.0.0.1:8470").check().unwrap();
        settings("[::1]:8470").check().unwrap();
        let refused = settings("10.0.0.1:8470").check().unwrap_err().to_string();
        assert!(refused.contains("viewer-token-file"), "{refused}");
        let mut one = settings("10.0.0.1:8470");
        one.viewer_token = Some(token("0123456789abcdef"));
        assert!(one.check().is_err());
        one.operator_token = Some(token("fedcba9876543210"));
        one.check().unwrap();
        one.operator_token = Some(token("short"));
        assert!(one.check().unwrap_err().to_string().contains("shorter"));
    }

    #[test]
    fn address_without_a_name_needs_an_origin() {
        let mut any = settings("0.0.0.0:8470");
        any.viewer_token = Some(token("0123456789abcdef"));
        any.operator_token = Some(token("fedcba9876543210"));
        assert!(any.check().unwrap_err().to_string().contains("console.origins"));
        any.origins = vec!["https://allot.example.com/console".to_owned()];
        assert!(any.check().unwrap_err().to_string().contains("without a path"));
        any.origins = vec!["https://allot.example.com".to_owned()];
        any.check().unwrap();
        assert_eq!(any.address(), "https://allot.example.com");
    }
}
