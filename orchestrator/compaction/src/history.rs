//! The history: the tasks that have ended, and the rounds of repeated tasks. Packs many of them into one compressed node,
//! and reads and deletes these packs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use tracing::{info, warn};

use super::ids::TaskId;
use super::packed_list::{squeeze, unpack};
use super::task::{MainTask, State, write};
use super::task_store::rounds::of_log;
use super::task_store::{Fault, Found, TaskStore};
use allot_coordination::{Error, Kind, Op, Retry, Retryable as _};
use allot_runtime::time::now_ms;

/// Most bytes of a multi's deletes together with its pack.
const FILL: usize = 100 * 1024;
/// Most tasks whose nodes are listed at once. Far below the number of requests in flight: a list that waits while a
/// pack is written may hold the right to one.
const AT_ONCE: usize = 16;
/// Rounds of a task that are read at once.
const ROUNDS: usize = 32;
/// Packs that are read at once.
const PACKS: usize = 16;

/// A finished task or a round, with the operations that delete its nodes.
type Removal = (MainTask, Vec<Op>);

fn delete(path: String) -> Op {
    Op::Delete { path, version: None }
}

/// The rounds of a task that ended at `limit` (milliseconds since 1970) or before, each with the operations that delete
/// its record and its failures. After them the task itself, if it ended as long ago and is not `followed` by another.
async fn removals(
    store: &TaskStore,
    main: Found<MainTask>,
    followed: &HashSet<String>,
    limit: u64,
) -> Result<Vec<Removal>, Fault> {
    let is_over = main.task.state.is_over() && !followed.contains(&main.task.id);
    let is_old = is_over && main.task.finished <= limit;
    if is_old {
        store.shorten_failures(&main).await?;
    }
    let ended = ended_rounds(store, &main, limit).await?;
    if !is_old && ended.is_empty() {
        return Ok(Vec::new());
    }
    let dir = store.paths.failures(main.id);
    let chunks = if ended.is_empty() { Vec::new() } else { store.children(&dir).await? };
    let mut removals = Vec::new();
    for record in ended {
        let mut ops = vec![Op::Delete { path: record.info, version: Some(record.version) }];
        // The failures of its last round belong to the task itself.
        if record.task.failure_log.tag != main.task.failure_log.tag {
            let failures = of_log(&chunks, &record.task.failure_log);
            ops.extend(failures.map(|chunk| delete(format!("{dir}/{chunk}"))));
        }
        removals.push((record.task, ops));
    }
    if is_old {
        let gone: HashSet<String> =
            removals.iter().flat_map(|(_, ops)| ops).map(|op| op.path().to_owned()).collect();
        let ops = removal(store, &main, &gone).await?;
        removals.push((main.task, ops));
    }
    Ok(removals)
}

/// The records of a task's rounds that ended at `limit` (milliseconds since 1970) or before, from old to new. Of the others,
/// only a few are read, since a later round ended later.
async fn ended_rounds(
    store: &TaskStore,
    main: &Found<MainTask>,
    limit: u64,
) -> Result<Vec<Found<MainTask>>, Fault> {
    let names = store.round_names(main, None).await?;
    let mut ended = Vec::new();
    for some in names.rchunks(ROUNDS) {
        for record in store.rounds(main, some.to_vec()).await?.into_iter().rev() {
            if record.task.finished > limit {
                return Ok(ended);
            }
            ended.push(record);
        }
    }
    Ok(ended)
}

/// The operations that delete all nodes of a finished task, without those that are `gone` before.
async fn removal(
    store: &TaskStore,
    main: &Found<MainTask>,
    gone: &HashSet<String>,
) -> Result<Vec<Op>, Fault> {
    let mut ops = vec![Op::Delete { path: main.info.clone(), version: Some(main.version) }];
    for name in store.children(&main.dir).await? {
        let path = format!("{}/{name}", main.dir);
        if path == main.info {
            continue;
        }
        let children = store.children(&path).await?.into_iter().map(|child| format!("{path}/{child}"));
        ops.extend(children.filter(|child| !gone.contains(child)).map(delete));
        ops.push(delete(path));
    }
    ops.push(delete(main.dir.clone()));
    Ok(ops)
}

/// Packs the tasks, and the rounds of repeated tasks, that ended at least `after` ago: one multi writes a pack and deletes
/// what is in it. Returns how many were packed. A task that cannot be deleted, because a foreign node is below it, does not
/// keep other tasks from being packed.
pub async fn pack(store: &TaskStore, after: Duration) -> Result<usize, Fault> {
    let limit = now_ms().saturating_sub(after.as_millis() as u64);
    let mains = store.mains().await?;
    // How the last round of these ended decides whether others may begin.
    let live = mains.iter().filter(|main| !main.task.state.is_over());
    let followed: HashSet<String> = live.filter_map(|main| main.task.follows.clone()).collect();
    let removals = mains.into_iter().map(|main| removals(store, main, &followed, limit));
    let mut removals = futures_util::stream::iter(removals).buffered(AT_ONCE);
    let (mut batch, mut size, mut count): (Vec<Removal>, _, _) = (Vec::new(), 0, 0);
    while let Some(removals) = removals.next().await {
        let removals = match removals {
            Err(fault) if fault.retry() == Retry::Refused => {
                warn!(%fault, "cannot pack a task into history");
                continue;
            }
            removals => removals?,
        };
        for (task, removal) in removals {
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

/// The sizes of the packs that have been read, in bytes after compression. A pack never changes, so each is read once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sizes(Arc<Mutex<BTreeMap<String, usize>>>);

impl Sizes {
    /// Reads the packs that are new, and shows the size of packed history in the metrics of this unit. Packs that this
    /// process may not read count as empty.
    pub(crate) async fn measure(&self, store: &TaskStore) -> Result<(), Fault> {
        let directory = store.paths.compress();
        let names = store.children(&directory).await?;
        let mut sizes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let unread: Vec<String> = names.iter().filter(|name| !sizes.contains_key(*name)).cloned().collect();
        for some in unread.chunks(PACKS) {
            for (name, node) in store.tree.get_many_readable(&directory, some.to_vec()).await? {
                sizes.insert(name, node.map_or(0, |node| node.data.len()));
            }
        }
        let names: HashSet<String> = names.into_iter().collect();
        sizes.retain(|name, _| names.contains(name));
        publish_size(sizes.len(), sizes.values().sum());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sizes;
        Ok(())
    }
}

/// Shows the number and the bytes of the packs in the metrics of this unit.
pub(crate) fn publish_size(packs: usize, bytes: usize) {
    metrics::gauge!("allot_compaction_history_packs").set(packs as f64);
    metrics::gauge!("allot_compaction_history_bytes").set(bytes as f64);
}

/// Which of the history is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Database, schema and table; `None` for any.
    pub table: [Option<String>; 3],
    /// How the task or the round ended; `None` for any end.
    pub state: Option<State>,
    /// The earliest end, in milliseconds since 1970.
    pub from: u64,
    /// The latest end, in milliseconds since 1970; `None` for no limit.
    pub to: Option<u64>,
}

impl Filter {
    /// Whether this ended task or round is wanted.
    fn holds(&self, task: &MainTask) -> bool {
        self.is_of_table(task)
            && self.state.is_none_or(|state| state == task.state)
            && task.finished >= self.from
            && self.to.is_none_or(|to| task.finished <= to)
    }

    /// Whether the task, and with it each of its rounds, is on a wanted table.
    fn is_of_table(&self, task: &MainTask) -> bool {
        let is_of =
            |(wanted, name): (&Option<String>, &str)| wanted.as_ref().is_none_or(|wanted| wanted == name);
        self.table.iter().zip(task.table()).all(is_of)
    }

    /// Whether the pack of this name may have something that is wanted: it was written after the end of all that it has.
    fn may_hold(&self, pack: &str) -> bool {
        pack.parse().is_ok_and(|time: u64| time >= self.from)
    }
}

/// The names of the packs that may have something wanted, from old to new.
async fn pack_names(store: &TaskStore, filter: &Filter) -> Result<Vec<String>, Fault> {
    let mut names = store.children(&store.paths.compress()).await?;
    names.retain(|name| filter.may_hold(name));
    names.sort_unstable();
    Ok(names)
}

/// Reads the packs that may have something wanted, from new to old and a few at once. `take` gets what is in each, or the
/// reason why it cannot be read, and says whether it wants the next one. Returns whether all were read.
async fn packs(
    store: &TaskStore,
    filter: &Filter,
    mut take: impl FnMut(Result<Vec<MainTask>, Fault>) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    let names = pack_names(store, filter).await?;
    for some in names.rchunks(PACKS) {
        let mut found = store.tree.get_many_readable(&store.paths.compress(), some.to_vec()).await?;
        found.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        for (name, node) in found {
            if !take(node.map_err(Fault::from).and_then(|node| unpack(&name, &node.data)))? {
                return Ok(names.first() == Some(&name));
            }
        }
    }
    Ok(true)
}

/// What is in a pack; nothing if it cannot be read, which is logged.
fn readable(pack: Result<Vec<MainTask>, Fault>) -> Vec<MainTask> {
    pack.unwrap_or_else(|fault| {
        warn!(%fault, "skipping a pack of history that cannot be read");
        Vec::new()
    })
}

/// All that is packed. An unreadable pack is an error, since a caller may write the tasks that it does not find.
pub async fn packed(store: &TaskStore) -> Result<Vec<MainTask>, Fault> {
    let mut all = Vec::new();
    let take = |pack: Result<Vec<MainTask>, Fault>| {
        all.extend(pack?);
        Ok(true)
    };
    packs(store, &Filter::default(), take).await?;
    Ok(all)
}

/// The newest that is packed of this task: the task itself, or its round with this number. `None` if nothing is. Reads the
/// packs from new to old until it is found. An unreadable pack is skipped and logged.
pub(crate) async fn find(
    store: &TaskStore,
    id: TaskId,
    round: Option<u64>,
) -> Result<Option<MainTask>, Fault> {
    let is_wanted = |task: &MainTask| {
        let is_part = round.map_or(!task.is_round(), |round| task.is_round() && task.round == round);
        task.id == id.to_string() && is_part
    };
    let mut found = None;
    let take = |pack| {
        found = readable(pack).into_iter().rev().find(is_wanted);
        Ok(found.is_none())
    };
    packs(store, &Filter { from: id.submitted(), ..Filter::default() }, take).await?;
    Ok(found)
}

/// The finished task `id`, and the rounds of it that have ended, packed or not, from old to new. An unreadable pack is
/// skipped and logged.
pub(crate) async fn of_task(store: &TaskStore, id: TaskId) -> Result<Vec<MainTask>, Fault> {
    let filter = Filter { from: id.submitted(), ..Filter::default() };
    let mut tasks = Vec::new();
    if let Some(main) = store.main(id).await? {
        unpacked(store, main, &filter, &mut tasks).await?;
    }
    let text = id.to_string();
    let take = |pack| {
        tasks.extend(readable(pack).into_iter().filter(|task| task.id == text));
        Ok(true)
    };
    packs(store, &filter, take).await?;
    Ok(sorted(tasks))
}

/// The finished tasks and the rounds of repeated tasks that are wanted, packed or not, from old to new. An unreadable
/// pack is skipped and logged. Once there are as many as `limit`, no older packs are read; then the second value is false.
pub async fn all(store: &TaskStore, filter: &Filter, limit: usize) -> Result<(Vec<MainTask>, bool), Fault> {
    let mut tasks = Vec::new();
    for main in store.mains().await?.into_iter().filter(|main| filter.is_of_table(&main.task)) {
        unpacked(store, main, filter, &mut tasks).await?;
    }
    tasks.retain(|task| filter.holds(task));
    let take = |pack| {
        tasks.extend(readable(pack).into_iter().filter(|task| filter.holds(task)));
        Ok(tasks.len() < limit)
    };
    let are_all = packs(store, filter, take).await?;
    Ok((sorted(tasks), are_all))
}

/// Adds a task, if it has ended, and the ended rounds of it that are not packed. Of those that ended before `filter.from`
/// only a few are read.
async fn unpacked(
    store: &TaskStore,
    main: Found<MainTask>,
    filter: &Filter,
    tasks: &mut Vec<MainTask>,
) -> Result<(), Fault> {
    for names in store.round_names(&main, None).await?.chunks(ROUNDS) {
        let rounds = store.rounds(&main, names.to_vec()).await?;
        let is_over = rounds.last().is_some_and(|oldest| oldest.task.finished < filter.from);
        tasks.extend(rounds.into_iter().map(|record| record.task));
        if is_over {
            break;
        }
    }
    tasks.extend(Some(main.task).filter(|task| task.state.is_over()));
    Ok(())
}

/// From old to new. What was packed between the reads of the task and of its pack occurs twice in `tasks`.
fn sorted(mut tasks: Vec<MainTask>) -> Vec<MainTask> {
    let key = |task: &MainTask| (task.finished, task.id.clone(), !task.is_round(), task.round);
    tasks.sort_by_cached_key(key);
    tasks.dedup_by_key(|task| key(task));
    tasks
}

/// A place in the history, from new to old. As text, the cursor of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Cursor {
    /// The newest task.
    #[default]
    Newest,
    /// The tasks that are older than this one and not packed; with a number, before them the earlier rounds of this one.
    Before(TaskId, Option<u64>),
    /// The pack of this name.
    Pack(String),
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => f.write_str("newest"),
            Self::Before(id, None) => write!(f, "before:{id}"),
            Self::Before(id, Some(round)) => write!(f, "before:{id}:{round}"),
            Self::Pack(name) => write!(f, "pack:{name}"),
        }
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no cursor of the history");
        match text.split_once(':') {
            Some(("before", place)) => match place.split_once(':') {
                None => Ok(Self::Before(place.parse()?, None)),
                Some((id, round)) => Ok(Self::Before(id.parse()?, Some(round.parse().map_err(|_| wrong())?))),
            },
            // A name of digits leads to no other node.
            Some(("pack", name)) if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(Self::Pack(name.to_owned()))
            }
            _ if text == "newest" => Ok(Self::Newest),
            _ => Err(wrong()),
        }
    }
}

/// A page of what is wanted of the history, from new to old, and the cursor of the next page: at most `count` that are
/// not packed (one if it is 0), each task before its rounds; then one pack in each page. A pack that is gone or cannot be
/// read is an empty page.
pub async fn page(
    store: &TaskStore,
    filter: &Filter,
    cursor: Cursor,
    count: usize,
) -> Result<(Vec<MainTask>, Option<Cursor>), Fault> {
    let mut packs = pack_names(store, filter).await?;
    let pack = match cursor {
        Cursor::Pack(pack) => pack,
        cursor => {
            let (tasks, next) = unpacked_page(store, filter, cursor, count.max(1)).await?;
            return Ok((tasks, next.or(packs.pop().map(Cursor::Pack))));
        }
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
    tasks.retain(|task| filter.holds(task));
    tasks.sort_by_key(|task| Reverse((task.finished, !task.is_round(), task.round)));
    Ok((tasks, packs.pop().map(Cursor::Pack)))
}

/// A page of what is not packed, and the cursor of the next one; `None` if that is the newest pack.
async fn unpacked_page(
    store: &TaskStore,
    filter: &Filter,
    cursor: Cursor,
    count: usize,
) -> Result<(Vec<MainTask>, Option<Cursor>), Fault> {
    let (last, mut round) = match cursor {
        Cursor::Before(id, round) => (Some(id), round),
        Cursor::Newest | Cursor::Pack(_) => (None, None),
    };
    let names = store.children(&store.paths.scheduler()).await?;
    let mut ids: Vec<TaskId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.retain(|id| last.is_none_or(|last| *id < last || (*id == last && round.is_some())));
    ids.sort_unstable_by(|a, b| b.cmp(a));
    let mut tasks = Vec::new();
    for batch in ids.chunks(count) {
        for main in store.mains_of(batch).await?.into_iter().rev() {
            let before = round.take_if(|_| Some(main.id) == last);
            if !filter.is_of_table(&main.task) {
                continue;
            }
            if before.is_none() && main.task.state.is_over() && filter.holds(&main.task) {
                tasks.push(main.task.clone());
            }
            let names = store.round_names(&main, before).await?;
            for names in names.chunks(count) {
                if tasks.len() >= count {
                    break;
                }
                let rounds = store.rounds(&main, names.to_vec()).await?.into_iter().map(|record| record.task);
                let rounds: Vec<MainTask> = rounds.collect();
                // The older ones ended earlier.
                let is_over = rounds.last().is_some_and(|oldest| oldest.finished < filter.from);
                let wanted = rounds.into_iter().filter(|task| filter.holds(task));
                tasks.extend(wanted.take(count - tasks.len()));
                if is_over {
                    break;
                }
            }
            if tasks.len() >= count {
                let shown = tasks.last().filter(|task| task.is_round()).map(|task| task.round);
                let round = shown.unwrap_or(main.task.round + 1);
                return Ok((tasks, Some(Cursor::Before(main.id, Some(round)))));
            }
        }
    }
    Ok((tasks, None))
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
        let coordinator = Coordinator::start(Arc::new(tree));
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
            let (tasks, next) = page(&store, &Filter::default(), cursor, 0).await.unwrap();
            times.extend(tasks.iter().map(|task| task.id.clone()));
            cursor = next.unwrap();
        }
        let expected = [2_000_000, 1_000_000].map(|time| TaskId::main("u_1", time).to_string());
        assert_eq!(times, expected);
    }
}
