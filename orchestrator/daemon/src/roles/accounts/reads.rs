//! The reads that each process of this role answers at its HTTP port, whether it leads or not: who leads, the book as Redis
//! has it, and the tree as ZooKeeper has it. Writes are refused, and the refusal names the leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use allot_client::{BookStore, Error as BookError, Record};
use allot_coordination::{Error as TreeError, Node};
use allot_runtime::http::{Page, Pages, Question};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::paths::{Paths, decode, instance_of};
use crate::roles::context::RoleContext as Context;

/// The path of all these reads.
pub(super) const PATH: &str = "/accounts";
/// Time limit for an answer of Redis and ZooKeeper together, below that of a connection to the HTTP port.
const LIMIT: Duration = Duration::from_secs(4);

/// The answers of this process. `election` is the directory in which the leader is elected.
pub(super) fn pages(context: &Context, election: String) -> Pages {
    let reads = Reads { context: context.clone(), election };
    Arc::new(move |question: Question| {
        let reads = reads.clone();
        async move { reads.answer(&question).await }.boxed()
    })
}

#[derive(Clone)]
struct Reads {
    context: Context,
    election: String,
}

/// Why a question has no answer.
enum Refusal {
    /// There is no such thing.
    Absent(String),
    /// A server has failed.
    Unavailable(String),
}

impl From<TreeError> for Refusal {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::NoNode(path) => Self::Absent(format!("{path} is not in ZooKeeper")),
            error => Self::Unavailable(format!("ZooKeeper: {error}")),
        }
    }
}

impl From<BookError> for Refusal {
    fn from(error: BookError) -> Self {
        match error.code() {
            Some("NOTFOUND") => Self::Absent(error.to_string()),
            _ => Self::Unavailable(format!("Redis: {error}")),
        }
    }
}

impl Reads {
    async fn answer(&self, question: &Question) -> Page {
        let answer = timeout(LIMIT, async {
            if question.is_read {
                self.read(question).await.map(|value| Page::json(&value))
            } else {
                self.refuse().await
            }
        });
        match answer.await {
            Ok(Ok(page)) => page,
            Ok(Err(Refusal::Absent(why))) => Page::absent(&why),
            Ok(Err(Refusal::Unavailable(why))) => Page::unavailable(&why),
            Err(_) => {
                Page::unavailable(&format!("no answer of Redis and ZooKeeper within {} s", LIMIT.as_secs()))
            }
        }
    }

    async fn read(&self, Question { path, query, .. }: &Question) -> Result<Value, Refusal> {
        let below = path.strip_prefix(PATH).unwrap_or_default();
        let parts: Vec<&str> = below.split('/').skip(1).collect();
        match parts.as_slice() {
            [] => {
                let leader = self.leader().await?;
                let leads = leader.as_ref() == Some(&self.context.name);
                Ok(json!({"leader": leader, "process": self.context.name, "leads": leads}))
            }
            ["book"] => {
                let store = self.store().await?;
                let modules: Vec<Value> = store.modules().await?.iter().map(Record::json).collect();
                Ok(json!({"book": store.info().await?.json(), "modules": modules}))
            }
            ["book", "accounts"] => {
                let cursor = match query.strip_prefix("cursor=") {
                    None => 0,
                    Some(text) => text.parse::<u64>().map_err(|_| {
                        Refusal::Absent(format!("'{text}' is no cursor: send the one of the page before"))
                    })?,
                };
                let (next, accounts) = self.store().await?.page(cursor, None).await?;
                let accounts: Vec<Value> = accounts.iter().map(Record::json).collect();
                Ok(json!({"cursor": next, "accounts": accounts}))
            }
            ["tree"] => self.modules().await,
            ["tree", department, module] if !department.is_empty() && !module.is_empty() => {
                let paths = Paths::new(&self.context.config.accounts.root);
                self.instances(&paths.module(&decode(department), &decode(module))).await
            }
            _ => Err(Refusal::Absent(format!(
                "{path} is not there: ask for {PATH}, {PATH}/book, {PATH}/book/accounts, {PATH}/tree or \
                 {PATH}/tree/DEPARTMENT/MODULE"
            ))),
        }
    }

    async fn refuse(&self) -> Result<Page, Refusal> {
        let leader = match self.leader().await? {
            Some(leader) => format!("{leader} leads, and writes the tree"),
            None => "nobody leads at present".to_owned(),
        };
        Ok(Page::read_only(&format!(
            "these pages are only read: change the book with allot book or allot account; {leader}"
        )))
    }

    async fn leader(&self) -> Result<Option<String>, Refusal> {
        Ok(self.context.coordinator.leader(&self.election).await?)
    }

    async fn store(&self) -> Result<BookStore, Refusal> {
        let connection = self.context.servers.connection(Duration::ZERO).await?;
        Ok(BookStore::new(connection, &self.context.config.accounts.book))
    }

    /// The modules of the tree by department, by the names of their nodes.
    async fn modules(&self) -> Result<Value, Refusal> {
        let (tree, root) = (self.context.coordinator.tree(), &self.context.config.accounts.root);
        let mut names = tree.children(root).await?;
        names.retain(|name| !Paths::is_notify(name));
        let directories: Vec<String> = names.iter().map(|name| format!("{root}/{name}")).collect();
        let mut departments = BTreeMap::new();
        for (name, modules) in names.into_iter().zip(tree.children_of_each(&directories).await?) {
            let mut modules = match modules {
                Err(TreeError::NoNode(_)) => continue,
                modules => modules?,
            };
            modules.sort_unstable();
            departments.insert(name, modules);
        }
        Ok(json!(departments))
    }

    /// The instances in the directory of a module: whether each is present, and its accounts with what their nodes say.
    async fn instances(&self, directory: &str) -> Result<Value, Refusal> {
        let tree = self.context.coordinator.tree();
        let mut instances: BTreeMap<String, (bool, BTreeMap<String, Value>)> = BTreeMap::new();
        for name in tree.children(directory).await? {
            let Some(instance) = instance_of(&name) else {
                instances.entry(name).or_default().0 = true;
                continue;
            };
            let below = format!("{directory}/{name}");
            let names = match tree.children(&below).await {
                Err(TreeError::NoNode(_)) => continue,
                names => names?,
            };
            let nodes = tree.get_many(&below, names).await?.into_iter();
            let says = |node: &Node| serde_json::from_slice(&node.data).unwrap_or(Value::Null);
            let accounts = nodes.map(|(account, node)| (decode(&account), says(&node))).collect();
            instances.entry(instance.to_owned()).or_default().1 = accounts;
        }
        let shown = instances.into_iter().map(|(name, (is_present, accounts))| {
            (name, json!({"present": is_present, "accounts": accounts}))
        });
        Ok(shown.collect::<serde_json::Map<_, _>>().into())
    }
}
