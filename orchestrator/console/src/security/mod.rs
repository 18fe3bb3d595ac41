//! Who may call what: tokens, session cookies, the names by which the console is reached, and the headers of answers.

mod guard;
mod sessions;

pub(crate) use guard::{Caller, Guard, answer_headers, check_caller, refusal};
pub(crate) use sessions::{Access, Identity, Sessions, session_cookie};
