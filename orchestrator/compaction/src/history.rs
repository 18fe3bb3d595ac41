//! The history of finished tasks: packs many tasks into one compressed node, and reads and deletes these packs.

use std::cmp::Reverse;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::str::FromStr;
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use futures_util::StreamExt as _;
use tracing::{info, warn};

use super::ids::TaskId;
use super::task::{MainTask, write};
use super::task_store::{Fault, Found, TaskStore};
use allot_coordination::{Error, Kind, Op, Retry, Retryable as _};
use allot_runtime::time::now_ms;

/// Most bytes of a multi's deletes together with its pack.
const FILL: usize = 100 * 1024;
/// Most bytes of a pack after decompression.
const LARGEST: u64 = 64 * 1024 * 1024;
/// Most tasks whose nodes are listed at once. Far below the number of requests in flight: a list that waits while a
/// pack is written may hold the right to one.
const AT_ONCE: usize = 16;

fn odd(path: &str, error: impl std::fmt::Display) -> Fault {
    Fault::Corrupt(format!("{path} does not read as packed history: {error}"))
}

fn squeeze(tasks: &[&MainTask]) -> Result<Vec<u8>, Fault> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&write(&tasks)).and_then(|()| encoder.finish()).map_err(|error| odd("a pack", error))
}

fn unpack(path: &str, data: &[u8]) -> Result<Vec<MainTask>, Fault> {
    let mut text = Vec::new();
    GzDecoder::new(data).take(LARGEST).read_to_end(&mut text).map_err(|error| odd(path, error))?;
    serde_json::from_slice(&text).map_err(|error| odd(path, error))
}

/// The operations that delete all nodes of a finished task.
async fn removal(store: &TaskStore, main: &Found<MainTask>) -> Result<Vec<Op>, Fault> {
    let delete = |path: String| Op::Delete { path, version: None };
    let mut ops = vec![Op::Delete { path: main.info.clone(), version: Some(main.version) }];
    for name in store.children(&main.dir).await? {
        let path = format!("{}/{name}", main.dir);
        if path == main.info {
            continue;
        }
        for child in store.children(&path).await? {
            ops.push(delete(format!("{path}/{child}")));
        }
        ops.push(delete(path));
    }
    ops.push(delete(main.dir.clone()));
    Ok(ops)
}

/// The same, after a log of failures that is too long for one multi was deleted.
async fn prepare_removal(store: &TaskStore, main: &Found<MainTask>) -> Result<Vec<Op>, Fault> {
    store.shorten_failures(main).await?;
    removal(store, main).await
}

/// A finished task with the operations that delete it.
type Removal = (MainTask, Vec<Op>);

/// Packs the tasks that finished at least `after` ago: one multi writes a pack and deletes its tasks. Returns how
/// many were packed. A task that cannot be deleted, because a foreign node is below it, does not keep other tasks
/// from being packed.
pub async fn pack(store: &TaskStore, after: Duration) -> Result<usize, Fault> {
    let limit = now_ms().saturating_sub(after.as_millis() as u64);
    let mains = store.mains().await?;
    let old = mains.into_iter().filter(|main| main.task.state.is_over() && main.task.finished <= limit);
    let prepare = |main: Found<MainTask>| async move { (prepare_removal(store, &main).await, main.task) };
    let mut removals = futures_util::stream::iter(old).map(prepare).buffered(AT_ONCE);
    let (mut batch, mut size, mut count): (Vec<Removal>, _, _) = (Vec::new(), 0, 0);
    while let Some((removal, task)) = removals.next().await {
        let removal = match removal {
            Err(fault) if fault.retry() == Retry::Refused => {
                warn!(%fault, "cannot pack a task into history");
                continue;
            }
            removal => removal?,
        };
        // The size is counted before compression, which is an upper bound.
        let more = removal.iter().map(Op::size).sum::<usize>() + write(&task).len();
        if !batch.is_empty() && size + more > FILL {
            count += pack_these(store, &batch).await?;
            batch.clear();
            size = 0;
        }
        size += more;
        batch.push((task, removal));
    }
    if !batch.is_empty() {
        count += pack_these(store, &batch).await?;
    }
    Ok(count)
}

/// Packs these tasks in one multi; if that fails, each task alone.
async fn pack_these(store: &TaskStore, batch: &[Removal]) -> Result<usize, Fault> {
    let is_skippable = |fault: &Fault| fault.retry() == Retry::Refused || fault.retry() == Retry::Reread;
    match write_pack(store, batch).await {
        Err(fault) if is_skippable(&fault) && batch.len() > 1 => {}
        Err(fault) if is_skippable(&fault) => {
            warn!(%fault, "cannot pack a task into history");
            return Ok(0);
        }
        done => return done.map(|()| batch.len()),
    }
    let mut count = 0;
    for single in batch.chunks(1) {
        match write_pack(store, single).await {
            Ok(()) => count += 1,
            Err(fault) if is_skippable(&fault) => warn!(%fault, "cannot pack a task into history"),
            Err(fault) => return Err(fault),
        }
    }
    Ok(count)
}

async fn write_pack(store: &TaskStore, batch: &[Removal]) -> Result<(), Fault> {
    let tasks: Vec<&MainTask> = batch.iter().map(|(task, _)| task).collect();
    let data = squeeze(&tasks)?;
    let mut time = now_ms();
    loop {
        let path = format!("{}/{time:013}", store.paths.compress());
        let create = Op::Create { path: path.clone(), data: data.clone(), kind: Kind::Persistent };
        let removals = batch.iter().flat_map(|(_, removal)| removal.iter().cloned());
        match store.tree.multi([create].into_iter().chain(removals).collect()).await {
            Err(Error::Exists(taken)) if taken == path => time += 1,
            done => break done?,
        }
    }
    info!(count = tasks.len(), "packed tasks into history");
    Ok(())
}

/// Deletes packs older than `after`. Returns how many.
pub async fn expire(store: &TaskStore, after: Duration) -> Result<usize, Fault> {
    let limit = now_ms().saturating_sub(after.as_millis() as u64);
    let mut count = 0;
    for name in store.children(&store.paths.compress()).await? {
        if name.parse().is_ok_and(|time: u64| time < limit) {
            let path = format!("{}/{name}", store.paths.compress());
            match store.tree.multi(vec![Op::Delete { path, version: None }]).await {
                Ok(()) => count += 1,
                // A foreign node is below the pack, or another process deleted it first.
                Err(error @ (Error::NotEmpty(_) | Error::NoNode(_) | Error::Refused { .. })) => {
                    warn!(%error, "cannot delete a pack of history");
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(count)
}

/// The size of packed history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    packs: usize,
    /// Bytes of all packs, compressed.
    bytes: usize,
}

impl Size {
    /// Shows the size in the metrics of this unit.
    pub(crate) fn publish(self) {
        metrics::gauge!("allot_compaction_history_packs").set(self.packs as f64);
        metrics::gauge!("allot_compaction_history_bytes").set(self.bytes as f64);
    }
}

/// The size of packed history, without the packs that this process may not read. Reads all of it.
pub(crate) async fn size(store: &TaskStore) -> Result<Size, Fault> {
    let names = store.children(&store.paths.compress()).await?;
    let found = store.tree.get_many_readable(&store.paths.compress(), names).await?;
    let bytes = found.iter().filter_map(|(_, node)| node.as_ref().ok()).map(|node| node.data.len()).sum();
    Ok(Size { packs: found.len(), bytes })
}

/// The tasks of each pack, or the reason why the pack cannot be read.
async fn packs(store: &TaskStore) -> Result<Vec<Result<Vec<MainTask>, Fault>>, Fault> {
    let names = store.children(&store.paths.compress()).await?;
    let found = store.tree.get_many_readable(&store.paths.compress(), names).await?.into_iter();
    Ok(found.map(|(name, node)| unpack(&name, &node?.data)).collect())
}

/// All packed tasks. An unreadable pack is an error, since a caller may write the tasks that it does not find.
pub async fn packed(store: &TaskStore) -> Result<Vec<MainTask>, Fault> {
    let packs = packs(store).await?.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(packs.into_iter().flatten().collect())
}

/// All finished tasks, packed or not, from old to new. An unreadable pack is skipped and logged.
pub async fn all(store: &TaskStore) -> Result<Vec<MainTask>, Fault> {
    let mains = store.mains().await?;
    let mut tasks: Vec<MainTask> =
        mains.into_iter().map(|main| main.task).filter(|task| task.state.is_over()).collect();
    for pack in packs(store).await? {
        match pack {
            Ok(pack) => tasks.extend(pack),
            Err(fault) => warn!(%fault, "skipping a pack of history that cannot be read"),
        }
    }
    // A task that was packed between the two reads occurs twice.
    tasks.sort_by(|a, b| (a.finished, &a.id).cmp(&(b.finished, &b.id)));
    tasks.dedup_by(|a, b| a.id == b.id);
    Ok(tasks)
}

/// A place in the history, from new to old. As text, the cursor of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cursor {
    /// The newest task.
    #[default]
    Newest,
    /// The tasks that are older than this one and not packed.
    Before(TaskId),
    /// The pack of this name.
    Pack(String),
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => f.write_str("newest"),
            Self::Before(id) => write!(f, "before:{id}"),
            Self::Pack(name) => write!(f, "pack:{name}"),
        }
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("before", id)) => id.parse().map(Self::Before),
            // A name of digits leads to no other node.
            Some(("pack", name)) if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(Self::Pack(name.to_owned()))
            }
            _ if text == "newest" => Ok(Self::Newest),
            _ => Err(format!("'{text}' is no cursor of the history")),
        }
    }
}

/// A page of finished tasks, from new to old, and the cursor of the next page: at most `count` tasks that are not packed
/// (one if it is 0), then one pack in each page. A pack that is gone or cannot be read is an empty page.
pub async fn page(
    store: &TaskStore,
    cursor: Cursor,
    count: usize,
) -> Result<(Vec<MainTask>, Option<Cursor>), Fault> {
    let count = count.max(1);
    let mut packs = store.children(&store.paths.compress()).await?;
    packs.sort_unstable();
    let pack = match cursor {
        Cursor::Pack(pack) => pack,
        Cursor::Newest => return unpacked_page(store, None, count, packs.pop()).await,
        Cursor::Before(id) => return unpacked_page(store, Some(id), count, packs.pop()).await,
    };
    packs.retain(|name| *name < pack);
    let path = format!("{}/{pack}", store.paths.compress());
    let read = async || match store.tree.get(&path).await? {
        Some(node) => unpack(&path, &node.data),
        None => Ok(Vec::new()),
    };
    let mut tasks = match read().await {
        Err(fault) if fault.retry() == Retry::Refused => {
            warn!(%fault, "skipping a pack of history that cannot be read");
            Vec::new()
        }
        tasks => tasks?,
    };
    tasks.sort_by_key(|task| Reverse(task.finished));
    Ok((tasks, packs.pop().map(Cursor::Pack)))
}

/// A page of finished tasks that are not packed. The newest pack follows them.
async fn unpacked_page(
    store: &TaskStore,
    before: Option<TaskId>,
    count: usize,
    newest_pack: Option<String>,
) -> Result<(Vec<MainTask>, Option<Cursor>), Fault> {
    let names = store.children(&store.paths.scheduler()).await?;
    let mut ids: Vec<TaskId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.retain(|id| before.is_none_or(|before| *id < before));
    ids.sort_unstable_by(|a, b| b.cmp(a));
    let mut tasks = Vec::new();
    for batch in ids.chunks(count) {
        for main in store.mains_of(batch).await?.into_iter().rev().filter(|main| main.task.state.is_over()) {
            if tasks.len() < count {
                tasks.push(main.task);
            }
        }
        if tasks.len() >= count {
            break;
        }
    }
    let last = tasks.last().filter(|_| tasks.len() >= count).and_then(|task| task.id.parse().ok());
    Ok((tasks, last.map(Cursor::Before).or(newest_pack.map(Cursor::Pack))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::task::State;
    use allot_coordination::Coordinator;
    use allot_coordination::in_process::InProcess;

    #[tokio::test(start_paused = true)]
    async fn page_has_at_least_one_task() {
        let tree = InProcess::new(Duration::from_secs(2));
        let coordinator = Coordinator::start(Arc::new(tree), &allot_coordination::Settings::default());
        coordinator.up().await.unwrap();
        let store = TaskStore::new(coordinator.tree(), "/c");
        store.prepare().await.unwrap();
        for time in [1_000_000, 2_000_000] {
            let id = TaskId::main("u_1", time);
            let names = ["d", "s", "t"].map(str::to_owned);
            let mut task = MainTask::new(id, names, "u_1".into(), "default".into());
            task.state = State::Done;
            store.tree.multi(store.creation(id, &task)).await.unwrap();
        }
        let (mut cursor, mut times) = (Cursor::Newest, Vec::new());
        for _ in 0..2 {
            let (tasks, next) = page(&store, cursor, 0).await.unwrap();
            times.extend(tasks.iter().map(|task| task.id.clone()));
            cursor = next.unwrap();
        }
        let expected = [2_000_000, 1_000_000].map(|time| TaskId::main("u_1", time).to_string());
        assert_eq!(times, expected);
    }
}
