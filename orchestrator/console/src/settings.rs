//! The settings of the console, and the keys and paths that it shows.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use allot_client::{Secret, Servers};
use anyhow::{Result, ensure};

/// Shortest token, in bytes: a token is guessed at network speed.
const SHORTEST_TOKEN: usize = 16;

/// How the console is reached, and by whom.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address of the listener.
    pub listen: SocketAddr,
    /// Addresses of the console as browsers write them, in addition to `listen`: `https://allot.example.com`.
    pub origins: Vec<String>,
    /// Token of people who may look.
    pub viewer_token: Option<Secret>,
    /// Token of people who may also act.
    pub operator_token: Option<Secret>,
    /// The way to Redis for reads.
    pub viewer: Servers,
    /// The way to Redis for actions.
    pub operator: Servers,
    /// Files with the certificate chain and its key; without them the console speaks plain HTTP.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// The keys and paths that the settings of a process name. Other keys are found in Redis.
#[derive(Debug, Clone)]
pub struct Places {
    /// Key of the realm.
    pub realm: String,
    /// Directory of the realm in the coordination service.
    pub realm_dir: String,
    /// Key of the book of accounts.
    pub book: String,
    /// Directory of the accounts role in the coordination service.
    pub accounts_dir: String,
    /// Root of the compaction tasks.
    pub compaction: String,
    /// Replicas that must confirm a change of owner.
    pub wait_replicas: u32,
    /// Time limit of the wait for replicas.
    pub wait: Duration,
}

impl Settings {
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
            viewer_token: None,
            operator_token: None,
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
