//! Account clients, by the rules of docs/protocol.md: an instance registers, uses the accounts that are published to it,
//! releases those that are revoked, and logs out by itself when ZooKeeper does not answer.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use allot_coordination::session::{Changed, Connector as _, Link, Session};
use allot_coordination::{Error, Kind, Op, random};
use allot_simulation::line::Line;
use futures_util::future::select_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::accounts::{Accounts, Holder};

/// Pause after a failed request.
const PAUSE: Duration = Duration::from_millis(50);
/// Pause before an instance looks again whether it can register.
const REGISTER_PAUSE: Duration = Duration::from_millis(200);
/// The longest time that a logout takes.
const LOGOUT: Duration = Duration::from_millis(800);
/// Interval at which an instance uses its accounts and reports that.
const USE_INTERVAL: Duration = Duration::from_secs(2);
/// After this part of the session timeout without an answer the instance logs out of all accounts.
const TRUSTED: f64 = 0.6;

/// Runs an instance of a module, whose directory is `dir`.
pub(super) async fn run(name: String, dir: String, line: Line, accounts: Accounts) {
    loop {
        let Ok(session) = line.connect().await else { continue };
        let mut instance = Instance {
            node: format!("{dir}/{name}"),
            holder: accounts.holder(&name),
            released: BTreeMap::new(),
            used: BTreeMap::new(),
            use_at: Instant::now() + USE_INTERVAL,
            accounts: accounts.clone(),
            session: session.clone(),
        };
        tokio::select! {
            biased;
            () = distrusted(&session) => {}
            _ = instance.serve() => {}
        }
        // Logs out of all accounts.
        drop(instance);
        // A session that could not be closed lives until the service ends it.
        while session.link().borrow().link != Link::Ended {
            session.close().await;
            sleep(random::within(Duration::ZERO..REGISTER_PAUSE)).await;
        }
    }
}

/// Returns when the service has not answered for so long that the instance must log out.
async fn distrusted(session: &Arc<dyn Session>) {
    let limit = session.timeout().mul_f64(TRUSTED);
    let mut trusted = Instant::now();
    while Instant::now() < trusted + limit && session.link().borrow().link != Link::Ended {
        let sent = Instant::now();
        match timeout_at(trusted + limit, session.sync()).await {
            Ok(Ok(())) => trusted = sent,
            Ok(Err(_)) => sleep(PAUSE).await,
            Err(_) => return,
        }
        sleep_until((trusted + limit).min(Instant::now() + session.timeout() / 10)).await;
    }
}

/// An account as the leader has published it.
struct Published {
    epoch: u64,
    is_revoked: bool,
}

struct Instance {
    /// The path of the instance's node.
    node: String,
    /// The accounts that the instance is logged in to.
    holder: Holder,
    /// Accounts that it has released, with their epochs, until they are published no more.
    released: BTreeMap<String, u64>,
    /// How many instructions it has sent with each published account since its assignments, by epoch.
    used: BTreeMap<String, BTreeMap<u64, u64>>,
    /// When it uses its accounts next.
    use_at: Instant,
    accounts: Accounts,
    session: Arc<dyn Session>,
}

impl Instance {
    /// Serves one session, until the session ends.
    async fn serve(&mut self) -> Result<Infallible, Error> {
        self.register().await?;
        let mut link = self.session.link();
        loop {
            link.borrow_and_update();
            match self.follow().await {
                Ok(changed) => {
                    tokio::select! {
                        _ = select_all(changed) => {}
                        // The connection was lost: everything is read again.
                        _ = link.changed() => {}
                        () = sleep_until(self.use_at) => {}
                    }
                }
                Err(error) if error.is_transient() || matches!(error, Error::NoNode(_)) => sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates the own node.
    async fn register(&self) -> Result<(), Error> {
        loop {
            let (path, kind) = (self.node.clone(), Kind::Ephemeral);
            let pause = match self.session.multi(&[Op::Create { path, data: Vec::new(), kind }]).await {
                Ok(()) => return Ok(()),
                Err(Error::Exists(_)) => {
                    let node = self.session.get(&self.node).await;
                    if node.is_ok_and(|node| node.is_some_and(|node| node.owner == Some(self.session.id()))) {
                        return Ok(());
                    }
                    REGISTER_PAUSE
                }
                Err(Error::NoNode(_)) => REGISTER_PAUSE,
                Err(error) if error.is_transient() => PAUSE,
                Err(error) => return Err(error),
            };
            sleep(pause).await;
        }
    }

    /// Reads everything, does what it says, and reports; the watches of what was read.
    async fn follow(&mut self) -> Result<Vec<Changed>, Error> {
        let (own, changed) = self.session.watch_node(&self.node).await?;
        let mut changes = vec![changed];
        if own.data.is_empty() || own.owner != Some(self.session.id()) {
            self.use_at = Instant::now() + USE_INTERVAL;
            return Ok(changes);
        }
        let alloc = String::from_utf8_lossy(&own.data).into_owned();
        let (children, changed) = self.session.watch_children(&alloc).await?;
        changes.push(changed);
        let mut published = BTreeMap::new();
        for name in children.names {
            match self.session.watch_node(&format!("{alloc}/{name}")).await {
                Ok((node, changed)) => {
                    let text: Value = serde_json::from_slice(&node.data).unwrap();
                    let is_revoked = text["state"] == "revoke";
                    published.insert(name, Published { epoch: text["epoch"].as_u64().unwrap(), is_revoked });
                    changes.push(changed);
                }
                Err(Error::NoNode(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.accounts.check_tree();
        self.obey(&published).await;
        self.report(&alloc).await?;
        Ok(changes)
    }

    /// Logs in to what is published, and out of what is revoked or gone; uses accounts when it is time.
    async fn obey(&mut self, published: &BTreeMap<String, Published>) {
        self.released
            .retain(|account, epoch| published.get(account).is_some_and(|there| there.epoch == *epoch));
        self.used.retain(|account, _| published.contains_key(account));
        for account in self.holder.accounts() {
            match published.get(&account) {
                None => self.holder.log_out(&account),
                Some(there) if there.is_revoked => {
                    sleep(random::within(Duration::ZERO..LOGOUT)).await;
                    self.holder.log_out(&account);
                }
                Some(_) => {}
            }
        }
        let uses = Instant::now() >= self.use_at;
        for (account, there) in published {
            if there.is_revoked {
                // Also what an earlier process of this name had.
                self.released.insert(account.clone(), there.epoch);
            } else if self.released.get(account) != Some(&there.epoch) {
                self.holder.log_in(account);
                if uses {
                    let totals = self.used.entry(account.clone()).or_default();
                    *totals.entry(there.epoch).or_default() += self.accounts.sends(account);
                }
            }
        }
        if uses {
            self.use_at = Instant::now() + USE_INTERVAL;
        }
    }

    /// Writes the report, if it has changed.
    async fn report(&self, alloc: &str) -> Result<(), Error> {
        let report = json!({ "released": self.released, "used": self.used }).to_string().into_bytes();
        let Some(node) = self.session.get(alloc).await? else { return Err(Error::NoNode(alloc.to_owned())) };
        if node.data == report {
            return Ok(());
        }
        let set = Op::Set { path: alloc.to_owned(), data: report, version: node.version };
        match self.session.multi(&[set]).await {
            Err(Error::BadVersion(_)) => Err(Error::NotApplied(alloc.to_owned())),
            set => set,
        }
    }
}
