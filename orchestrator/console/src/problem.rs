//! Errors as HTTP answers: a status, and a JSON object with a code and a message.

use allot_client::Error;
use allot_compaction::Fault;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::operations::Refusal;

/// The reason that a request was not carried out.
#[derive(Debug, Serialize, ToSchema)]
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

    /// A part that the request needs is not there.
    pub(crate) fn absent(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "absent", message)
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
            Fault::Refused(why) | Fault::Busy(why) => Self::new(StatusCode::CONFLICT, "refused", why),
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

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Wrong(why) => Self::bad(why),
            Refusal::Conflict(why) => Self::new(StatusCode::CONFLICT, "refused", why),
        }
    }
}

/// An operation of the program: the cause decides. An unknown cause is a fault of the console, not of the request.
impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        let shown = error.to_string();
        let Known { problem, text } = match known_cause(error) {
            Ok(cause) => cause,
            Err(error) => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                return Self::new(status, "internal", format!("{error:#}"));
            }
        };
        // The operation has said more than the cause.
        let message = if shown == text { problem.message } else { format!("{shown}: {}", problem.message) };
        Self { message, ..problem }
    }
}

/// A cause that is known: its problem, and its own words.
struct Known {
    problem: Problem,
    text: String,
}

impl Known {
    fn new<E: std::fmt::Display + Into<Problem>>(error: E) -> Self {
        Self { text: error.to_string(), problem: error.into() }
    }
}

fn known_cause(error: anyhow::Error) -> Result<Known, anyhow::Error> {
    let error = match error.downcast::<Refusal>() {
        Ok(refusal) => return Ok(Known::new(refusal)),
        Err(error) => error,
    };
    let error = match error.downcast::<Fault>() {
        Ok(fault) => return Ok(Known::new(fault)),
        Err(error) => error,
    };
    let error = match error.downcast::<Error>() {
        Ok(error) => return Ok(Known::new(error)),
        Err(error) => error,
    };
    error.downcast::<allot_coordination::Error>().map(Known::new)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn of(error: anyhow::Error) -> (u16, String, String) {
        let Problem { status, code, message } = error.into();
        (status.as_u16(), code, message)
    }

    #[test]
    fn unknown_cause_is_no_fault_of_the_request() {
        let (status, code, message) = of(anyhow!("no room on the disk").context("a file"));
        assert_eq!(
            (status, code.as_str(), message.as_str()),
            (500, "internal", "a file: no room on the disk")
        );
    }

    #[test]
    fn known_cause_decides_also_below_a_context() {
        assert_eq!(of(Refusal::Wrong("no table".to_owned()).into()).0, 400);
        assert_eq!(of(Refusal::Conflict("it has changed".to_owned()).into()).0, 409);
        let fault = Fault::Busy("no unit is there".to_owned());
        assert_eq!(of(fault.into()), (409, "refused".to_owned(), "no unit is there".to_owned()));
        let away = (503, "zookeeper-away".to_owned(), allot_coordination::Error::Offline.to_string());
        assert_eq!(of(allot_coordination::Error::Offline.into()), away);
        assert_eq!(of(Fault::Tree(allot_coordination::Error::Offline).into()), away);
        let damaged = Fault::Corrupt("a subtask without a status".to_owned());
        let (status, code, message) = of(anyhow!(damaged).context("one of two is done"));
        assert_eq!((status, code.as_str()), (500, "damaged-data"));
        assert_eq!(message, "one of two is done: a subtask without a status");
        let refused = Error::Refused {
            command: String::new(),
            code: "NOTFOUND".to_owned(),
            message: "no p1".to_owned(),
        };
        let (status, code, message) = of(anyhow::Error::from(refused).context("a part is done"));
        assert_eq!((status, code.as_str()), (404, "NOTFOUND"));
        assert_eq!(message, "a part is done: no p1");
    }
}
