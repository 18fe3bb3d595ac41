//! The one kind of error: its cause, which is the exit code, what happened, and what to do.

use std::fmt::{Display, Write as _};
use std::io;

use allot_client::Error;
use allot_compaction::Fault;
use redis::ErrorKind;
use serde_json::json;

use crate::terminal;

/// Problems of one input that are printed; further ones are counted.
const SHOWN: usize = 10;

/// How the message begins if the server does not know a command.
const UNKNOWN_COMMAND: &str = "the server does not know";

/// Why a command did not do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// No failure: a dry run has said all, or the reader of the output has closed it, as `head` does.
    Done,
    No,
    Usage,
    Input,
    Absent,
    Refused,
    Unreachable,
    Denied,
    Local,
    Interrupted,
    Terminated,
}

impl Cause {
    /// Exit code, word and meaning of each cause.
    pub(crate) const ALL: [(Self, u8, &'static str, &'static str); 11] = [
        (Self::Done, 0, "done", "done"),
        (Self::No, 1, "no", "the answer is no: nothing was found, or a check failed"),
        (Self::Usage, 2, "usage", "the command line is wrong"),
        (Self::Input, 3, "input", "the input or the settings are wrong"),
        (Self::Absent, 4, "absent", "there is no such thing, or it is of another type"),
        (Self::Refused, 5, "refused", "refused as things stand"),
        (Self::Unreachable, 6, "unreachable", "not reachable or too slow: try again"),
        (Self::Denied, 7, "denied", "not permitted: a password or an ACL"),
        (Self::Local, 8, "local", "a file of this machine or the output failed"),
        (Self::Interrupted, 130, "interrupted", "ended by Ctrl-C"),
        (Self::Terminated, 143, "terminated", "ended by SIGTERM"),
    ];

    fn entry(self) -> (u8, &'static str) {
        let found = Self::ALL.into_iter().find(|(cause, ..)| *cause == self);
        found.map_or((1, "no"), |(_, code, word, _)| (code, word))
    }

    /// The exit code.
    pub(crate) fn code(self) -> u8 {
        self.entry().0
    }
}

/// What a command did not do, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// The first problems of an input, each with its place, and how many there are.
    problems: Vec<String>,
    count: usize,
    /// The code of the server's refusal.
    pub(crate) code: Option<String>,
}

/// A count with its noun: `1 area`, `2 areas`.
pub(crate) fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What a command returns.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub(crate) fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), hint: None, problems: Vec::new(), count: 0, code: None }
    }

    pub(crate) fn no(message: impl Into<String>) -> Self {
        Self::new(Cause::No, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Cause::Usage, message)
    }

    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(Cause::Input, message)
    }

    pub(crate) fn absent(message: impl Into<String>) -> Self {
        Self::new(Cause::Absent, message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Cause::Refused, message)
    }

    /// With what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether the server does not know the command.
    pub(crate) fn is_unknown_command(&self) -> bool {
        self.message.starts_with(UNKNOWN_COMMAND)
    }

    /// With the first problems that were found, and how many there are.
    #[must_use]
    pub(crate) fn counted(mut self, problems: Vec<String>, count: usize) -> Self {
        (self.problems, self.count) = (problems, count);
        self
    }

    /// A file of this machine that cannot be read or written.
    pub(crate) fn file(cause: Cause, name: &str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Cause::Done, "");
        }
        Self::new(cause, format!("{name}: {}", plain(error)))
    }

    /// Prints the failure on standard error, as text or as one object.
    pub(crate) fn print(&self, as_json: bool) {
        if self.cause == Cause::Done || (self.cause == Cause::No && self.message.is_empty()) {
            return;
        }
        let (code, word) = self.cause.entry();
        let shown = self.problems.iter().take(SHOWN);
        if as_json {
            let mut all = json!({"code": code, "word": word, "message": self.message, "hint": self.hint});
            if let (Some(code), Some(all)) = (&self.code, all.as_object_mut()) {
                all.insert("server_code".to_owned(), code.as_str().into());
            }
            if let (false, Some(all)) = (self.problems.is_empty(), all.as_object_mut()) {
                all.insert("problems".to_owned(), shown.cloned().collect::<Vec<_>>().into());
                all.insert("problem_count".to_owned(), self.count.into());
            }
            return terminal::note(&all.to_string());
        }
        let mut text = format!("allot: {}", self.message);
        if let Some(hint) = &self.hint {
            let _ = write!(text, "\nhint: {hint}");
        }
        for problem in shown {
            let _ = write!(text, "\n  {problem}");
        }
        if self.count > SHOWN {
            let _ = write!(text, "\n  ... and {} more", self.count - SHOWN);
        }
        terminal::note(&text);
    }
}

/// An error of the system without its number.
fn plain(error: &impl Display) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The cause of a refusal of a server, by its code.
fn cause_of(code: &str, message: &str) -> Cause {
    match code {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => Cause::Denied,
        "NOKEY" | "NOTFOUND" | "WRONGTYPE" | "NOGROUP" => Cause::Absent,
        "READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "MOVED" | "ASK" | "NOREPLICAS" | "BUSY"
        | "TRYAGAIN" | "UNBLOCKED" => Cause::Unreachable,
        "ERR" if message.starts_with("wrong number of arguments") || message.starts_with("syntax error") => {
            Cause::Usage
        }
        _ => Cause::Refused,
    }
}

const PASSWORD: &str =
    "set ALLOT_PASSWORD_FILE to a file with it, and ALLOT_USER if it is not the user 'default'";

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused { code, message, command } => {
                let failure = if code == "NOAUTH" {
                    Self::new(Cause::Denied, "the server wants a password").hint(PASSWORD)
                } else if code == "NOPERM" {
                    let hint = "docs/deploy.md has the ACL rules for operators";
                    Self::new(Cause::Denied, format!("the server's ACL does not allow it: {message}"))
                        .hint(hint)
                } else if message.starts_with("unknown command") {
                    let why = format!("{UNKNOWN_COMMAND} {command}");
                    Self::refused(why)
                        .hint("load the module: loadmodule /path/to/liballot.so; allot server check")
                } else {
                    Self::new(cause_of(&code, &message), message)
                };
                Self { code: Some(code), ..failure }
            }
            Error::Link { what, source } => {
                let unreachable = |why: &str, hint| (Cause::Unreachable, why.to_owned(), hint);
                let (cause, why, hint) = match source.kind() {
                    ErrorKind::AuthenticationFailed => {
                        (Cause::Denied, "the user or the password is wrong".to_owned(), PASSWORD)
                    }
                    ErrorKind::Parse | ErrorKind::UnexpectedReturnType => unreachable(
                        "no Redis server answers there",
                        "name the server: --server NAME|URL, or ALLOT_SERVER",
                    ),
                    _ if source.is_timeout() => unreachable(
                        "no answer in time",
                        "--limit-time 1m waits longer; is it a Redis server?",
                    ),
                    _ if source.is_connection_dropped() && !source.is_connection_refusal() => unreachable(
                        "the connection was closed without an answer",
                        "is it a Redis server, and is it up? The address of one with TLS is rediss://HOST:PORT",
                    ),
                    _ => unreachable(
                        &plain(&source),
                        "is the server up? --server NAME|URL or ALLOT_SERVER names another",
                    ),
                };
                Self::new(cause, format!("{what}: {why}")).hint(hint)
            }
            Error::NoMaster(_) | Error::Stopped(_) => Self::new(Cause::Unreachable, error.to_string()),
            Error::Address(why) => Self::usage(why).hint("write HOST, HOST:PORT or redis://HOST:PORT"),
            Error::Shape(_) => {
                Self::refused(error.to_string()).hint("allot version says whether client and module fit")
            }
        }
    }
}

impl From<allot_coordination::Error> for Failure {
    fn from(error: allot_coordination::Error) -> Self {
        use allot_coordination::Error as E;
        let cause = match &error {
            E::Refused { why, .. } if why.contains("auth") || why.contains("Auth") => Cause::Denied,
            E::Refused { why, .. } if why.contains("does not exist") => Cause::Absent,
            E::NoSession(_)
            | E::Offline
            | E::Closed
            | E::Busy
            | E::Unanswered(_)
            | E::NotApplied(_)
            | E::BadVersion(_) => Cause::Unreachable,
            E::NoNode(_) => Cause::Absent,
            E::TooLarge { .. } => Cause::Input,
            E::Exists(_) | E::NotEmpty(_) | E::NotLeading | E::Refused { .. } => Cause::Refused,
        };
        Self::new(cause, format!("ZooKeeper: {error}"))
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Tree(error) => error.into(),
            Fault::Wrong(why) => Self::usage(as_options(&why)),
            Fault::Absent(why) => Self::absent(as_options(&why)),
            Fault::Corrupt(why) | Fault::Refused(why) | Fault::Busy(why) => Self::refused(as_options(&why)),
        }
    }
}

/// The options that a text names as fields of a request, `retry_failed`, as people write them: --retry-failed.
fn as_options(text: &str) -> String {
    let option = |(place, part): (usize, &str)| match place % 2 {
        0 => part.to_owned(),
        _ => format!("--{}", part.replace('_', "-")),
    };
    text.split('`').enumerate().map(option).collect()
}

/// Errors of files and formats; what is an error of a server below its context keeps its cause.
impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let text = format!("{error:#}");
        let error = match error.downcast::<Error>() {
            Ok(error) => return error.into(),
            Err(error) => error,
        };
        let error = match error.downcast::<Fault>() {
            Ok(fault) => return fault.into(),
            Err(error) => error,
        };
        match error.downcast::<allot_coordination::Error>() {
            Ok(error) => error.into(),
            Err(_) => Self::input(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_the_exit_code_of_its_cause() {
        let of = |code: &str, message: &str| {
            let refused = Error::Refused { command: "X".into(), code: code.into(), message: message.into() };
            Failure::from(refused).cause.code()
        };
        assert_eq!(of("NOAUTH", "Authentication required."), 7);
        assert_eq!(of("NOPERM", "no permissions"), 7);
        assert_eq!(of("NOKEY", "there is no show"), 4);
        assert_eq!(of("WRONGTYPE", "another type"), 4);
        assert_eq!(of("BADSTATE", "it is sold"), 5);
        assert_eq!(of("LOADING", "loading"), 6);
        assert_eq!(of("ERR", "unknown command 'SEAT.STAT'"), 5);
        assert_eq!(Failure::from(Fault::Wrong("no such window".into())).cause.code(), 2);
        let link = anyhow::Error::from(allot_coordination::Error::Offline).context("while loading");
        assert_eq!(Failure::from(link).cause.code(), 6);
    }
}
