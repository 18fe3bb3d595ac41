//! A client whose calls are all on one key.

use crate::raw::{RawClient, Reply};

/// A connection, and the key between a call's command and its other arguments.
#[derive(Debug)]
pub struct KeyedClient {
    /// The connection.
    pub client: RawClient,
    prefix: &'static str,
    key: &'static str,
}

impl KeyedClient {
    /// Calls of commands whose names begin with `prefix`, which lines leave out.
    pub(crate) fn new(client: RawClient, prefix: &'static str, key: &'static str) -> Self {
        Self { client, prefix, key }
    }

    /// Sends `COMMAND rest`, the key between the two.
    pub fn call(&mut self, line: &str) -> Reply {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        self.client.words(&format!("{}{command} {} {rest}", self.prefix, self.key))
    }

    /// As `call`, of a command that is not refused.
    #[track_caller]
    pub fn ok(&mut self, line: &str) -> Reply {
        let reply = self.call(line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        reply
    }

    /// The first word of the error that a command is refused with; `OK` for one that is not.
    #[track_caller]
    pub fn code(&mut self, line: &str) -> String {
        match self.call(line) {
            Reply::Error(text) => text.split(' ').next().unwrap_or_default().to_owned(),
            _ => "OK".to_owned(),
        }
    }
}
