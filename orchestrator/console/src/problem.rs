//! Errors as HTTP answers: a status, and a JSON object with a code and a message.

use allot_client::Error;
use allot_compaction::Fault;
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// The media type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// The reason that a request was not carried out.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// A code for programs: the code of Redis, such as `NOTFOUND`, or one of the console's own in lower case.
    code: String,
    /// The reason in words.
    message: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into() }
    }

    /// The request itself is wrong.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", message)
    }

    /// The request does not fit the state that was found.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "refused", message)
    }

    /// A part that the request needs is not there.
    pub(crate) fn absent(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "absent", message)
    }

    /// A server has not answered yet.
    pub(crate) fn late() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "late", "there was no answer for two seconds")
    }

    /// The console's user of Redis may not send a command.
    pub(crate) fn denied() -> Self {
        Self::new(StatusCode::FORBIDDEN, "NOPERM", "the console's user of Redis may not send this command")
    }

    /// The same problem, after these words.
    pub(crate) fn after(self, words: &str) -> Self {
        Self { message: format!("{words}: {}", self.message), ..self }
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let Error::Refused { code, message, .. } = &error else {
            return match error {
                Error::Shape(_) => Self::new(StatusCode::BAD_GATEWAY, "unexpected-reply", error.to_string()),
                _ => Self::new(StatusCode::SERVICE_UNAVAILABLE, "redis-away", error.to_string()),
            };
        };
        let status = match code.as_str() {
            "NOKEY" | "NOTFOUND" => StatusCode::NOT_FOUND,
            "NOPERM" | "NOAUTH" => StatusCode::FORBIDDEN,
            "ERR" => StatusCode::BAD_REQUEST,
            _ if error.ends_session() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, code, message.clone())
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Wrong(why) => Self::bad(why),
            Fault::Absent(why) | Fault::Refused(why) | Fault::Busy(why) => Self::conflict(why),
            // Waiting does not help: somebody must look at the data.
            Fault::Corrupt(why) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "damaged-data", why),
            Fault::Tree(error) => error.into(),
        }
    }
}

impl From<allot_coordination::Error> for Problem {
    fn from(error: allot_coordination::Error) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "zookeeper-away", error.to_string())
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(rejection.status(), "bad-request", rejection.body_text())
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(rejection.status(), "bad-request", rejection.body_text())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, [(header::CONTENT_TYPE, PROBLEM_JSON)], Json(self)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_decides_the_status_and_the_code() {
        let offline = allot_coordination::Error::Offline;
        let refused = |code: &str| Error::Refused {
            command: String::new(),
            code: code.to_owned(),
            message: "no p1".to_owned(),
        };
        for (problem, status, code) in [
            (Problem::from(Fault::Wrong("no table".to_owned())), 400, "bad-request"),
            (Fault::Busy("no unit is there".to_owned()).into(), 409, "refused"),
            (Fault::Corrupt("a subtask without a status".to_owned()).into(), 500, "damaged-data"),
            (Fault::Tree(offline.clone()).into(), 503, "zookeeper-away"),
            (offline.into(), 503, "zookeeper-away"),
            (refused("NOTFOUND").into(), 404, "NOTFOUND"),
            (refused("NOPERM").into(), 403, "NOPERM"),
            (refused("ERR").into(), 400, "ERR"),
            (refused("BADSTATE").into(), 409, "BADSTATE"),
            (refused("LOADING").into(), 503, "LOADING"),
        ] {
            assert_eq!((problem.status.as_u16(), problem.code.as_str()), (status, code), "{problem:?}");
        }
    }
}
