//! The HTTP API. Each endpoint is declared once, in [`routes`]: its route and its part of the OpenAPI document follow.

mod book;
mod command;
mod declaration;
mod events;
mod realm;
mod sales;
mod session;
mod show;
mod tasks;

use std::sync::Arc;

use allot_runtime::time::now_ms;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode};
use axum::routing::{delete, get, post};
use utoipa::openapi::HttpMethod::{Delete, Get, Post};

use declaration::{Api, Endpoint, Nothing};

use crate::actions::ActionRecord;
use crate::history::{Minutes, minutes};
use crate::problem::Problem;
use crate::shared::KeyList;
use crate::state::Console;

/// All endpoints.
pub(crate) fn routes() -> Router<Arc<Console>> {
    let session = |summary| Endpoint::new(summary).answers::<session::Session>();
    let mut api = Api::default();
    api.add("/session", Get, session("What the caller may do."), get(session::show));
    let login = session("Exchanges a token for a session cookie.").takes::<session::Login>();
    api.add("/session", Post, login, post(session::open));
    api.add("/session", Delete, session("Ends the session."), delete(session::close));
    let events = Endpoint::new(
        "Live events of keys, and of `overview`, `compaction` and `keys`, as Server-Sent Events.",
    );
    api.add("/events", Get, events.with::<events::Which>().streams(), get(events::events));
    let command = Endpoint::new("Sends one command to Redis. The console sends only those that `GET` lists.");
    let command = command.takes::<command::Wanted>().answers::<declaration::Done>();
    let run = post(command::run).layer(DefaultBodyLimit::max(command::LONGEST));
    api.add("/command", Post, command, run);
    api.read("/command", "The commands that the console sends, and who may send them.", command::list);
    api.read("/keys", "The keys that hold values of Allot, as of half a minute ago at most.", keys);
    api.read("/actions", "What operators did last, from new to old, at most 2000 actions.", actions);
    api.read("/history", "What the module has done in the last 24 hours, by the minute.", history);
    api.read("/show/map", "The map of a show. Changes that follow it come as events.", show::map);
    api.read("/show/seats", "The records of seats, as `SEAT.GET` gives them.", show::seats);
    api.read("/show/holds", "The live holds that end first, as of some seconds ago at most.", show::holds);
    api.read("/show/find", "The seats that a user, a token or an order holds or has bought.", show::find);
    api.read(
        "/show/sales",
        "The seats that were sold when, since the oldest entry of the show's event stream.",
        sales::sales,
    );
    api.read("/show/totals", "The places of shows by state.", show::totals);
    api.read(
        "/realm/plan",
        "How many conferences wait and why, or where those of a unit would go, as of some seconds ago at most.",
        realm::plan,
    );
    api.act("/realm/lift-guard", "Lifts the mass-failure guard.", realm::lift_guard);
    api.read(
        "/book/rebalance",
        "The moves that a rebalance would make, as of some seconds ago at most.",
        book::rebalance,
    );
    api.act(
        "/book/import",
        "Makes a book equal to a table of accounts, or says what would change. The import goes on if the client leaves.",
        book::import,
    );
    api.read(
        "/book/import",
        "The last import into a book since the console has started; null if there is none.",
        book::last_import,
    );
    api.read(
        "/compaction/history",
        "Tasks that have ended, and rounds of repeated tasks, from new to old: first those with nodes of their own, then \
         the packed ones, a pack in each page.",
        tasks::history,
    );
    api.read(
        "/compaction/failures",
        "All partitions that failed in a round of a task, from old to new. The history has the last failures of packed \
         tasks and rounds.",
        tasks::failures,
    );
    api.read("/compaction/explain", "Why a task does not run, or has not finished.", tasks::explain);
    api.act("/compaction/pause", "Pauses a task, or lets it go on.", tasks::pause);
    api.act("/compaction/stop", "Stops a task.", tasks::stop);
    api.act("/compaction/submit", "Submits a task. The result is its id.", tasks::submit);
    api.act(
        "/compaction/set",
        "Changes options of an unfinished task, for the subtasks that have not begun.",
        tasks::set,
    );
    api.act("/compaction/retry", "Runs the failed partitions of a finished task again.", tasks::retry);
    api.act(
        "/compaction/reassign",
        "Gives a task to another manager, or a waiting subtask to another worker. The result is the unit.",
        tasks::reassign,
    );
    api.act(
        "/compaction/drain",
        "Drains a compaction node, or lets it take subtasks again. The result is how many subtasks are there.",
        tasks::drain,
    );
    api.finish().fallback(unknown).method_not_allowed_fallback(wrong_method)
}

async fn wrong_method(method: Method) -> Problem {
    let why = format!("{method} is no method of this endpoint; /api/v1/openapi.json lists those that it has");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong-method", why)
}

/// There is no endpoint with this address.
pub(crate) async fn unknown() -> Problem {
    Problem::absent("there is no such endpoint; /api/v1/openapi.json lists all")
}

async fn actions(console: Arc<Console>, _: Nothing) -> Result<Vec<ActionRecord>, Problem> {
    Ok(console.actions.newest_first())
}

async fn history(console: Arc<Console>, _: Nothing) -> Result<Minutes, Problem> {
    Ok(minutes(&console.history.records(), now_ms()))
}

async fn keys(console: Arc<Console>, _: Nothing) -> Result<KeyList, Problem> {
    Ok(console.key_list().await?)
}
