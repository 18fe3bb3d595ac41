//! Holds and sells a seat under a token of the buyer's own, and follows the show's event stream.
//!
//!     cargo run -p allot-client --example seats -- redis://127.0.0.1:6379 show:example

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use allot_client::streams::{BLOCK, Commands};
use allot_client::{Endpoint, HoldRequest, SeatChoice, SeatStore, Servers};

const PLAN: &str =
    r#"{"areas":[{"id":"box","rows":[{"label":"1","rank":1,"tier":"gold","seats":"1-4"}]}],"events":1000}"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let key = arguments.next().unwrap_or_else(|| "show:example".to_owned());
    run(&url, &key).await
}

/// Sells one seat of the show at `key` and returns when its event has come.
pub async fn run(url: &str, key: &str) -> Result<(), Box<dyn Error>> {
    // A session is one master. When a request fails with an error whose `ends_session` is true, open another.
    let (endpoint, user) = Endpoint::url(url)?;
    let session = Servers { user, ..Servers::new(endpoint, key) }.session().await?;
    let show = SeatStore::new(session.connection.clone(), key);
    show.create(PLAN).await?;

    // The token is the buyer's own: after a lost answer, the same request again gets the same hold.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let token = format!("order-{now}");
    let choice = SeatChoice { tier: Some("gold"), ..SeatChoice::default() };
    let request = HoldRequest {
        user: &token,
        count: 1,
        ttl_ms: 60_000,
        choice,
        token: Some(&token),
        ..HoldRequest::default()
    };
    let Some(hold) = show.hold(&request).await? else {
        println!("sold out");
        return Ok(());
    };
    let again = show.hold(&request).await?;
    println!(
        "held {} as {}, also when asked again: {}",
        hold.seats.join(", "),
        hold.token,
        again.as_ref() == Some(&hold)
    );
    println!("sold {} seat", show.confirm(&token, Some(&token)).await?);

    // Waiting for events occupies a connection of its own.
    let mut events = Commands::read(session.another(BLOCK).await?, format!("{key}:evt"));
    loop {
        for entry in events.next().await? {
            println!("event {} {} {}", entry.id, entry.text("event"), entry.text("seats"));
            if entry.text("event") == "confirmed" && entry.text("token") == token {
                return Ok(());
            }
        }
    }
}
