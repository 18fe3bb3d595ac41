//! Errors between client and server.

use std::fmt;

use redis::{Arg, RedisError};

/// The reason that a request failed.
#[derive(Debug)]
pub enum Error {
    /// The server cannot be reached, or the connection broke. Whether the request was carried out is unknown.
    Link {
        /// The action that failed.
        what: String,
        /// The error of the connection.
        source: RedisError,
    },
    /// The server refused the request and changed nothing.
    Refused {
        /// The command's name.
        command: String,
        /// The code, which is the first word of the error, e.g. `NOTFOUND`.
        code: String,
        /// The rest of the error.
        message: String,
    },
    /// An address of a server that cannot be used, with the reason.
    Address(String),
    /// The reply does not look as specified.
    Shape(String),
    /// No server could be found that is the master.
    NoMaster(String),
    /// A run of many requests ended early, for this reason.
    Stopped(String),
}

impl Error {
    /// Sorts an error of the client library.
    pub fn of(command: &redis::Cmd, source: RedisError) -> Self {
        let name = match command.args_iter().next() {
            Some(Arg::Simple(name)) => String::from_utf8_lossy(name).into_owned(),
            _ => String::new(),
        };
        match source.code() {
            Some(code) => Self::Refused {
                command: name,
                code: code.to_owned(),
                message: source.detail().unwrap_or_default().to_owned(),
            },
            None if source.kind() == redis::ErrorKind::UnexpectedReturnType => {
                Self::Shape(format!("{name}: {source}"))
            }
            None => Self::Link { what: format!("{name} got no answer"), source },
        }
    }

    /// The code of a refusal.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            _ => None,
        }
    }
}

/// Codes of refusals that concern the server and not the request: the server is no master, or is not ready, or refuses
/// writes because it has too few replicas.
const SERVER_CODES: [&str; 12] = [
    "READONLY",
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "MOVED",
    "ASK",
    "NOREPLICAS",
    "UNBLOCKED",
    "NOAUTH",
    "BUSY",
    "MISCONF",
    "OOM",
];

impl Error {
    /// Whether the same request is to be sent again in a moment: the server is busy with what the answer depends on.
    pub(crate) fn is_try_again(&self) -> bool {
        self.code() == Some("TRYAGAIN")
    }

    /// Whether the error ends the session: the server is of no further use, and whether the request was carried out is
    /// unknown.
    pub fn ends_session(&self) -> bool {
        match self {
            Self::Link { .. } | Self::NoMaster(_) => true,
            Self::Refused { code, .. } => SERVER_CODES.contains(&code.as_str()),
            Self::Address(_) | Self::Shape(_) | Self::Stopped(_) => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { what, source } => write!(f, "{what}: {source}"),
            Self::Refused { command, code, message } => {
                write!(f, "{command} was refused: {code} {message}")?;
                if message.starts_with("unknown command") {
                    write!(f, " (is the allot module loaded? start the server with loadmodule liballot.so)")?;
                }
                Ok(())
            }
            Self::Address(why) => f.write_str(why),
            Self::Stopped(why) => write!(f, "stopped early: {why}"),
            Self::NoMaster(what) => {
                write!(f, "{what} is not a master, or none is known there; a failover may be under way")
            }
            Self::Shape(what) => write!(f, "the server's reply is not as specified: {what}"),
        }
    }
}

impl std::error::Error for Error {}
