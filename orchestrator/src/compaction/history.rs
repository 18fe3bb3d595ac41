//! History: tasks that are over, packed many to one compressed node; and the packs, read and deleted.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use tracing::info;

use super::board::{Board, Fault, Found};
use super::task::{MainTask, write};
use crate::coordination::{Error, Kind, Op};
use crate::daemon::now_ms;

/// Bytes of a multi's deletes, and of a pack, that we fill.
const FILL: usize = 100 * 1024;
/// No pack unpacks to more.
const LARGEST: u64 = 64 * 1024 * 1024;

fn odd(path: &str, error: impl std::fmt::Display) -> Fault {
    Fault::Odd(format!("{path} does not read as packed history: {error}"))
}

fn squeeze(tasks: &[MainTask]) -> Result<Vec<u8>, Fault> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&write(&tasks)).and_then(|()| encoder.finish()).map_err(|error| odd("a pack", error))
}

fn unpack(path: &str, data: &[u8]) -> Result<Vec<MainTask>, Fault> {
    let mut text = Vec::new();
    GzDecoder::new(data).take(LARGEST).read_to_end(&mut text).map_err(|error| odd(path, error))?;
    serde_json::from_slice(&text).map_err(|error| odd(path, error))
}

/// Everything of a task that is over.
async fn removal(board: &Board, main: &Found<MainTask>) -> Result<Vec<Op>, Fault> {
    let delete = |path: String| Op::Delete { path, version: None };
    let mut ops = vec![Op::Delete { path: main.info.clone(), version: Some(main.version) }];
    for name in board.children(&main.dir).await? {
        let path = format!("{}/{name}", main.dir);
        if path == main.info {
            continue;
        }
        for child in board.children(&path).await? {
            ops.push(delete(format!("{path}/{child}")));
        }
        ops.push(delete(path));
    }
    ops.push(delete(main.dir.clone()));
    Ok(ops)
}

/// Packs what has been over for so long: into the pack and out of the tree in one multi. Returns how many.
pub(crate) async fn pack(board: &Board, after: Duration) -> Result<usize, Fault> {
    let limit = now_ms().saturating_sub(after.as_millis() as u64);
    let mains = board.mains().await?;
    let mut old = mains.into_iter().filter(|main| main.task.state.is_over() && main.task.finished <= limit);
    let mut next = old.next();
    let mut count = 0;
    while next.is_some() {
        let (mut tasks, mut ops, mut size) = (Vec::new(), Vec::new(), 0);
        while let Some(main) = next.take() {
            let removal = removal(board, &main).await?;
            // Counted as if it were not compressed: then it surely fits.
            let more = removal.iter().map(Op::size).sum::<usize>() + write(&main.task).len();
            if !ops.is_empty() && size + more > FILL {
                next = Some(main);
                break;
            }
            size += more;
            ops.extend(removal);
            tasks.push(main.task);
            next = old.next();
        }
        let data = squeeze(&tasks)?;
        let mut time = now_ms();
        loop {
            let path = format!("{}/{time:013}", board.paths.compress());
            let create = Op::Create { path: path.clone(), data: data.clone(), kind: Kind::Persistent };
            let all = [create].into_iter().chain(ops.iter().cloned()).collect();
            match board.tree.multi(all).await {
                Err(Error::Exists(taken)) if taken == path => time += 1,
                done => break done?,
            }
        }
        count += tasks.len();
        info!(count = tasks.len(), "tasks are packed into history");
    }
    Ok(count)
}

/// Deletes packs that are older than this. Returns how many.
pub(crate) async fn expire(board: &Board, after: Duration) -> Result<usize, Fault> {
    let limit = now_ms().saturating_sub(after.as_millis() as u64);
    let mut count = 0;
    for name in board.children(&board.paths.compress()).await? {
        if name.parse().is_ok_and(|time: u64| time < limit) {
            let path = format!("{}/{name}", board.paths.compress());
            board.tree.multi(vec![Op::Delete { path, version: None }]).await?;
            count += 1;
        }
    }
    Ok(count)
}

/// All packed tasks.
pub(crate) async fn packed(board: &Board) -> Result<Vec<MainTask>, Fault> {
    let names = board.children(&board.paths.compress()).await?;
    let mut tasks = Vec::new();
    for (name, node) in board.tree.get_many(&board.paths.compress(), names).await? {
        tasks.extend(unpack(&name, &node.data)?);
    }
    Ok(tasks)
}

/// All tasks that are over, packed or not, from old to new.
pub(crate) async fn all(board: &Board) -> Result<Vec<MainTask>, Fault> {
    let mains = board.mains().await?;
    let mut tasks: Vec<MainTask> =
        mains.into_iter().map(|main| main.task).filter(|task| task.state.is_over()).collect();
    tasks.extend(packed(board).await?);
    // One that was packed between the two reads is there twice.
    tasks.sort_by(|a, b| (a.finished, &a.id).cmp(&(b.finished, &b.id)));
    tasks.dedup_by(|a, b| a.id == b.id);
    Ok(tasks)
}
