//! The settings of the console, and the keys and paths that it shows.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use allot_client::{Secret, Servers};
use allot_runtime::section;
use allot_runtime::settings::secret;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use axum::http::HeaderName;

use crate::rule::Rule;
use crate::webhook;

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
        /// File with a line for each operator who has a name: the name, a space and a token
        operators_file: PathBuf = "console-operators-file", "ALLOT_CONSOLE_OPERATORS_FILE", example r#""/etc/allot/operators""#;
        /// Header in which a proxy of `proxies` names the user. Its users need no token; those of `operators` may act
        user_header: String = "console-user-header", "ALLOT_CONSOLE_USER_HEADER", example r#""X-Forwarded-User""#;
        /// Names of the users of `user-header` who may act; all others may only look
        #[arg(value_delimiter = ',')]
        operators: Vec<String> = "console-operators", "ALLOT_CONSOLE_OPERATORS", list r#"["ann", "bob"]"#;
        /// Rules of which all pages and the webhook tell when they are met; docs/console.md has what they can measure
        #[arg(value_delimiter = ',')]
        alerts: Vec<String> = "console-alerts", "ALLOT_CONSOLE_ALERTS", list r#"["unrecovered > 0 for 30s", "refusals > 50/s for 1m", "busy {sales}:pool > 90%"]"#;
        /// File with the address to which alerts are posted, in its first line
        webhook_file: PathBuf = "console-webhook-file", "ALLOT_CONSOLE_WEBHOOK_FILE", example r#""/etc/allot/webhook""#;
        /// Folder of this console alone, in which it keeps its history and the actions over a restart
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
    /// The tokens of operators who have names.
    pub operator_tokens: Vec<(String, Secret)>,
    /// The header in which a named proxy names the user.
    pub user_header: Option<HeaderName>,
    /// Names of the users of this header who may act.
    pub operators: Vec<String>,
    /// Rules of which the console tells when they are met.
    pub alerts: Vec<Rule>,
    /// The address to which alerts are posted.
    pub webhook: Option<Secret>,
    /// The folder in which the console keeps its history and the actions; without it, they are in memory only.
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
            operator_tokens: given.operators_file.as_deref().map_or(Ok(Vec::new()), operator_tokens)?,
            user_header: given
                .user_header
                .map(|name| name.parse().with_context(|| format!("console.user-header is '{name}'")))
                .transpose()?,
            operators: given.operators,
            alerts: given
                .alerts
                .iter()
                .map(|text| text.parse().map_err(|error| anyhow!("console.alerts has {error}")))
                .collect::<Result<_>>()?,
            webhook: secret(given.webhook_file.as_deref(), "console.webhook-file", "ALLOT_CONSOLE_WEBHOOK")?,
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
        let viewer = self.viewer_token.iter().map(|token| (token, "viewer-token-file"));
        let operator = self.operator_token.iter().map(|token| (token, "operator-token-file"));
        let named = self.operator_tokens.iter().map(|(_, token)| (token, "operators-file"));
        for (token, name) in viewer.chain(operator).chain(named) {
            ensure!(
                token.reveal().len() >= SHORTEST_TOKEN,
                "a token of console.{name} is shorter than {SHORTEST_TOKEN} bytes; write a longer one, e.g. the output \
                 of: openssl rand -hex 32"
            );
        }
        self.webhook.as_ref().map_or(Ok(()), webhook::check)?;
        ensure!(
            self.user_header.is_none() || !self.proxies.is_empty(),
            "console.user-header needs the addresses of the proxies that send it: set console.proxies"
        );
        ensure!(
            self.operators.is_empty() || self.user_header.is_some(),
            "console.operators names users of the header console.user-header, which is not set"
        );
        ensure!(
            self.webhook.is_none() || !self.alerts.is_empty(),
            "console.webhook-file has an address, and console.alerts has no rule whose alerts could be posted"
        );
        let has_operators = self.operator_token.is_some() || !self.operator_tokens.is_empty();
        ensure!(
            self.listen.ip().is_loopback()
                || self.user_header.is_some()
                || self.viewer_token.is_some() && has_operators,
            "console.listen is {}, which is not loopback: set console.viewer-token-file, and \
             console.operator-token-file or console.operators-file, or console.user-header; or listen on 127.0.0.1",
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

/// Reads the names and tokens of operators.
fn operator_tokens(path: &Path) -> Result<Vec<(String, Secret)>> {
    let name = || format!("console.operators-file {}", path.display());
    let text = std::fs::read_to_string(path).with_context(name)?;
    let lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    let tokens: Result<Vec<_>> = lines
        .map(|(number, line)| {
            let words = line.split_whitespace().collect::<Vec<_>>();
            // A line is not printed: it may be a token.
            let [user, token] = words[..] else {
                bail!("{} line {number}: write a name, a space and a token", name())
            };
            Ok((user.to_owned(), Secret::new(token.to_owned())))
        })
        .collect();
    let tokens = tokens?;
    // Without any token everybody could act.
    ensure!(!tokens.is_empty(), "{} names no operator", name());
    Ok(tokens)
}

#[cfg(test)]
pub(crate) mod tests {
    use allot_client::Endpoint;

    use super::*;

    pub(crate) fn settings(listen: &str) -> Settings {
        let (endpoint, _) = Endpoint::url("redis://h:1").unwrap();
        let servers = Servers::new(endpoint, "k");
        Settings {
            listen: listen.parse().unwrap(),
            origins: Vec::new(),
            proxies: Vec::new(),
            viewer_token: None,
            operator_token: None,
            operator_tokens: Vec::new(),
            user_header: None,
            operators: Vec::new(),
            alerts: Vec::new(),
            webhook: None,
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
    fn names_and_tokens_of_operators_are_read_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("operators");
        std::fs::write(&path, "# on call\nann  0123456789abcdef\n\nbob fedcba9876543210\n").unwrap();
        let read = operator_tokens(&path).unwrap();
        let read: Vec<(&str, &str)> = read.iter().map(|(name, token)| (&name[..], token.reveal())).collect();
        assert_eq!(read, [("ann", "0123456789abcdef"), ("bob", "fedcba9876543210")]);
        std::fs::write(&path, "ann 0123456789abcdef\nfedcba9876543210\n").unwrap();
        let refused = operator_tokens(&path).unwrap_err().to_string();
        assert!(refused.contains("line 2") && !refused.contains("fedc"), "{refused}");
    }

    #[test]
    fn header_of_users_needs_its_proxies() {
        let mut given = settings("10.0.0.1:8470");
        given.user_header = Some("x-user".parse().unwrap());
        assert!(given.check().unwrap_err().to_string().contains("console.proxies"));
        given.proxies = vec!["10.0.0.4".parse().unwrap()];
        given.check().unwrap();
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
