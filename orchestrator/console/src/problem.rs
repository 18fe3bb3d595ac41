//! Errors as HTTP answers: a status, and a JSON object with a code and a message.

use allot_client::Error;
use allot_compaction::Fault;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

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
            other => Self::new(StatusCode::SERVICE_UNAVAILABLE, "zookeeper-away", other.to_string()),
        }
    }
}

impl From<allot_coordination::Error> for Problem {
    fn from(error: allot_coordination::Error) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "zookeeper-away", error.to_string())
    }
}

/// An operation of the program: the cause decides if it is known; otherwise the request is wrong.
impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        let error = match error.downcast::<Fault>() {
            Ok(fault) => return fault.into(),
            Err(error) => error,
        };
        let error = match error.downcast::<Error>() {
            Ok(error) => return error.into(),
            Err(error) => error,
        };
        match error.downcast::<allot_coordination::Error>() {
            Ok(error) => error.into(),
            Err(error) => Self::bad(format!("{error:#}")),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}
