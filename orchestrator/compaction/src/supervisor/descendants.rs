//! The processes that a runner has started and that left its process group, by `setsid` for example. When their parent
//! ends, the kernel makes them children of the supervisor, which kills them.

use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use tokio::time::sleep;
use tracing::warn;

/// Interval at which the supervisor looks for further processes.
const POLL: Duration = Duration::from_millis(10);
/// How often it looks. A process that does not end at SIGKILL waits for storage, and stays.
const LOOKS: u32 = 300;

/// From now on, processes whose parent has ended become children of this one.
pub(super) fn adopt() {
    if let Err(error) = set_child_subreaper(Some(getpid())) {
        warn!(%error, "processes that leave the group of a runner cannot be ended with it");
    }
}

/// Kills all children of this process, and what they have started.
pub(super) async fn end() {
    for _ in 0..LOOKS {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            // An error means that the process has ended.
            let _ = kill_process(child, Signal::KILL);
        }
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        sleep(POLL).await;
    }
    warn!("a process that a runner has started does not end");
}

/// The children of all threads of this process.
fn children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let of = |list: String| {
        list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect::<Vec<_>>()
    };
    lists.flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Stdio;

    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn process_that_left_its_group_is_killed() {
        // In a process of its own, since all children of the process are killed.
        let test = ["--ignored", "--exact", "supervisor::descendants::tests::alone"];
        let ended = Command::new(std::env::current_exe().unwrap()).args(test).stdout(Stdio::null()).status();
        assert!(ended.await.unwrap().success());
    }

    #[tokio::test]
    #[ignore = "the test above runs it, in a process of its own"]
    async fn alone() {
        adopt();
        let dir = tempfile::tempdir().unwrap();
        let script = "setsid sh -c 'echo $$ >pid; exec sleep 600' & while ! [ -s pid ]; do sleep 0.01; done";
        let mut shell = Command::new("sh");
        assert!(shell.args(["-c", script]).current_dir(&dir).status().await.unwrap().success());
        let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
        let process = format!("/proc/{}", pid.trim());
        assert!(Path::new(&process).exists());
        end().await;
        assert!(!Path::new(&process).exists());
    }
}
