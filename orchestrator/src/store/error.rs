//! What can go wrong between us and the server: no link, a refusal, or a reply that is not as specified.

use std::fmt;

use redis::{Arg, RedisError};

/// Why a request did not get its answer.
#[derive(Debug)]
pub(crate) enum Error {
    /// The server is out of reach, or the link broke; whether the request was carried out is unknown.
    Link {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: RedisError,
    },
    /// The server refused the request and changed nothing.
    Refused {
        /// The command's name.
        command: String,
        /// The first word of the error, e.g. `NOTFOUND`.
        code: String,
        /// The rest of it.
        message: String,
    },
    /// The reply does not look as specified.
    Shape(String),
    /// A run of many requests ended early, for this reason.
    Stopped(String),
}

impl Error {
    /// Sorts an error of the client library.
    pub(crate) fn of(command: &redis::Cmd, source: RedisError) -> Self {
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
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { what, source } => write!(f, "{what}: {source} (is the server up? see --redis)"),
            Self::Refused { command, code, message } => {
                write!(f, "{command} was refused: {code} {message}")?;
                if message.starts_with("unknown command") {
                    write!(f, " (is the allot module loaded? start the server with loadmodule liballot.so)")?;
                }
                Ok(())
            }
            Self::Stopped(why) => write!(f, "stopped early: {why}"),
            Self::Shape(what) => write!(f, "the server's reply is not as specified: {what}"),
        }
    }
}

impl std::error::Error for Error {}
