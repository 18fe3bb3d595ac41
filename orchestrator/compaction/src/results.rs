//! The results of runners on the disk of their unit, until they are written to ZooKeeper.

use std::path::{Path, PathBuf};
use std::time::Duration;

use allot_runtime::blocking;
use tokio::time::timeout;
use tracing::warn;

use super::ids::TaskId;
use super::settings::Settings;

/// Time limit of the storage of results.
const STORAGE_LIMIT: Duration = Duration::from_secs(2);
/// The end of the names of files with results.
const EXTENSION: &str = "result";

fn path(config: &Settings, id: TaskId) -> PathBuf {
    config.output_dir().join(format!("{id}.{EXTENSION}"))
}

/// Writes a result to the disk, or deletes it. Storage that does not answer keeps nothing.
pub(crate) async fn keep(config: &Settings, id: TaskId, data: Option<Vec<u8>>) {
    let path = path(config, id);
    let shown = path.display().to_string();
    let written = timeout(STORAGE_LIMIT, blocking::run(move || change(&path, data))).await;
    let why = match written {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the storage does not answer".to_owned(),
    };
    warn!(path = shown, why, "cannot keep the result of a runner on the disk");
}

fn change(path: &Path, data: Option<Vec<u8>>) -> std::io::Result<()> {
    let Some(data) = data else { return std::fs::remove_file(path) };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    // A process that dies meanwhile must not leave half a file.
    let half = path.with_extension("half");
    std::fs::write(&half, data)?;
    std::fs::File::open(&half)?.sync_all()?;
    std::fs::rename(half, path)
}

/// The results on the disk.
pub(crate) async fn kept(config: &Settings) -> Vec<(TaskId, Vec<u8>)> {
    let dir = config.output_dir();
    let read = move || {
        let mut all = Vec::new();
        for path in std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let is_result = path.extension().is_some_and(|extension| extension == EXTENSION);
            let id = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            if let Some(id) = id.filter(|_| is_result)
                && let Ok(data) = std::fs::read(&path)
            {
                all.push((id, data));
            }
        }
        all
    };
    timeout(STORAGE_LIMIT, blocking::run(read)).await.unwrap_or_default()
}
