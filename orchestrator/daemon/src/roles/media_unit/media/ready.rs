//! How the program of a conference says that people can join.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::config::Ready;
use allot_runtime::child::program::ExecResult;

/// The line on standard output by which a program says that it is ready.
pub(super) const LINE: &[u8] = b"READY";
/// How long to wait until a program is executed.
const EXEC_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause between two checks by a command.
const POLL: Duration = Duration::from_millis(200);
/// The longest run of such a command.
const POLL_TIMEOUT: Duration = Duration::from_secs(5);

/// Environment variables.
type Variables = Vec<(OsString, OsString)>;

/// Waits until a program is ready. The command that asks for it has the variables of the program; `line` hears of the
/// program's line.
///
/// # Errors
/// Why the program could not be executed.
pub(super) fn wait(
    ready: &Ready,
    program: &Command,
    executed: ExecResult,
    line: oneshot::Receiver<()>,
) -> impl Future<Output = Result<(), String>> + use<> {
    let ready = ready.clone();
    let variables = program.as_std().get_envs();
    let variables: Variables =
        variables.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
    async move {
        // A machine that takes longer is slow; the program may still be executed.
        timeout(EXEC_TIMEOUT, executed.wait()).await.unwrap_or(Ok(()))?;
        match ready {
            Ready::Spawn => {}
            Ready::Line => {
                // A program that closes its output is never ready.
                if line.await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            Ready::Exec(command) => {
                while !succeeds(&command, &variables).await {
                    sleep(POLL).await;
                }
            }
        }
        Ok(())
    }
}

/// Whether a shell command exits with code 0.
async fn succeeds(command: &str, variables: &Variables) -> bool {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).envs(variables.iter().cloned()).kill_on_drop(true);
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = timeout(POLL_TIMEOUT, shell.status()).await;
    status.is_ok_and(|status| status.is_ok_and(|status| status.success()))
}
