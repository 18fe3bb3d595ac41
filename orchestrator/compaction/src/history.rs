//! History: tasks that are over, packed many to one compressed node; and the packs, read and deleted.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tracing::{info, warn};

use super::task::{MainTask, write};
use super::task_store::{Fault, Found, TaskStore};
use allot_coordination::{Error, Kind, Op};
use allot_runtime::time::now_ms;

/// Bytes of a multi's deletes, and of a pack, that we fill.
const FILL: usize = 100 * 1024;
/// No pack unpacks to more.
const LARGEST: u64 = 64 * 1024 * 1024;

fn odd(path: &str, error: impl std::fmt::Display) -> Fault {
    Fault::Odd(format!("{path} does not read as packed history: {error}"))
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

/// Everything of a task that is over.
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

/// A task that is over, and what removes it.
type Leaving = (MainTask, Vec<Op>);

/// Packs what has been over for so long: into the pack and out of the tree in one multi. Returns how many. What cannot be
/// removed, since something that is none of ours stands in it, keeps nothing else from being packed.
pub async fn pack(store: &TaskStore, after: Duration) -> Result<usize, Fault> {
    let limit = now_ms().saturating_sub(after.as_millis() as u64);
    let mains = store.mains().await?;
    let old = mains.into_iter().filter(|main| main.task.state.is_over() && main.task.finished <= limit);
    let (mut batch, mut size, mut count): (Vec<Leaving>, _, _) = (Vec::new(), 0, 0);
    for main in old {
        let removal = match removal(store, &main).await {
            Err(fault) if fault.is_of_its_own() => {
                warn!(%fault, "a task is not packed into history");
                continue;
            }
            removal => removal?,
        };
        // Counted as if it were not compressed: then it surely fits.
        let more = removal.iter().map(Op::size).sum::<usize>() + write(&main.task).len();
        if !batch.is_empty() && size + more > FILL {
            count += pack_these(store, &batch).await?;
            batch.clear();
            size = 0;
        }
        size += more;
        batch.push((main.task, removal));
    }
    if !batch.is_empty() {
        count += pack_these(store, &batch).await?;
    }
    Ok(count)
}

/// Packs these, all in one, and where that cannot be each alone.
async fn pack_these(store: &TaskStore, batch: &[Leaving]) -> Result<usize, Fault> {
    let stuck = |fault: &Fault| fault.is_of_its_own() || fault.is_race();
    match write_pack(store, batch).await {
        Err(fault) if stuck(&fault) && batch.len() > 1 => {}
        Err(fault) if stuck(&fault) => {
            warn!(%fault, "a task is not packed into history");
            return Ok(0);
        }
        done => return done.map(|()| batch.len()),
    }
    let mut count = 0;
    for one in batch.chunks(1) {
        match write_pack(store, one).await {
            Ok(()) => count += 1,
            Err(fault) if stuck(&fault) => warn!(%fault, "a task is not packed into history"),
            Err(fault) => return Err(fault),
        }
    }
    Ok(count)
}

async fn write_pack(store: &TaskStore, batch: &[Leaving]) -> Result<(), Fault> {
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
    info!(count = tasks.len(), "tasks are packed into history");
    Ok(())
}

/// Deletes packs that are older than this. Returns how many.
pub async fn expire(store: &TaskStore, after: Duration) -> Result<usize, Fault> {
    let limit = now_ms().saturating_sub(after.as_millis() as u64);
    let mut count = 0;
    for name in store.children(&store.paths.compress()).await? {
        if name.parse().is_ok_and(|time: u64| time < limit) {
            let path = format!("{}/{name}", store.paths.compress());
            match store.tree.multi(vec![Op::Delete { path, version: None }]).await {
                Ok(()) => count += 1,
                // Something that is none of ours stands under it, or another was faster.
                Err(error @ (Error::NotEmpty(_) | Error::NoNode(_) | Error::Refused { .. })) => {
                    warn!(%error, "a pack of history is not deleted");
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(count)
}

/// The tasks of each pack, or why it does not read.
async fn packs(store: &TaskStore) -> Result<Vec<Result<Vec<MainTask>, Fault>>, Fault> {
    let names = store.children(&store.paths.compress()).await?;
    let found = store.tree.get_many_readable(&store.paths.compress(), names).await?.into_iter();
    Ok(found.map(|(name, node)| unpack(&name, &node?.data)).collect())
}

/// All packed tasks. Who asks may be about to write what is missing, so all must read.
pub async fn packed(store: &TaskStore) -> Result<Vec<MainTask>, Fault> {
    let packs = packs(store).await?.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(packs.into_iter().flatten().collect())
}

/// All tasks that are over, packed or not, from old to new. A pack that does not read is left out, and logged.
pub async fn all(store: &TaskStore) -> Result<Vec<MainTask>, Fault> {
    let mains = store.mains().await?;
    let mut tasks: Vec<MainTask> =
        mains.into_iter().map(|main| main.task).filter(|task| task.state.is_over()).collect();
    for pack in packs(store).await? {
        match pack {
            Ok(pack) => tasks.extend(pack),
            Err(fault) => warn!(%fault, "a pack of history is passed over"),
        }
    }
    // One that was packed between the two reads is there twice.
    tasks.sort_by(|a, b| (a.finished, &a.id).cmp(&(b.finished, &b.id)));
    tasks.dedup_by(|a, b| a.id == b.id);
    Ok(tasks)
}
