//! Recovers subtasks that an earlier lifetime of a unit left running: it writes the result that it has, or requeues them.

use tracing::info;

use super::{Unwritten, Worker, with};
use crate::fault::Fault;
use crate::task::SubTask;
use crate::task_store::Found;

impl Worker {
    /// Recovers a subtask that an earlier lifetime left `Running`. The subtask starts again when that lifetime cannot
    /// be running it any more: one session timeout after its lock has disappeared.
    pub(super) async fn recover(&self, sub: &Found<SubTask>) -> Result<(), Fault> {
        // The version shows that no other worker was given the subtask since its runner ended.
        let unwritten = with(&self.unwritten, |unwritten| unwritten.remove(&sub.id));
        if let Some(unwritten) = unwritten.filter(|unwritten| unwritten.version == sub.version) {
            return self.finish_late(sub, unwritten).await;
        }
        let path = self.store.lock(&sub.task);
        let session = self.node_context.session_timeout();
        let name = sub.id.to_string().into_bytes();
        loop {
            let own = self.node_context.coordinator.session_id();
            match self.store.tree.get(&path).await? {
                // This session holds the lock without knowing it: the reply to its own start was lost.
                Some(node) if node.owner.is_some() && node.owner == own && node.data == name => {
                    return self.requeue_or_discard(sub, own, false).await;
                }
                Some(node) if node.data == name => {}
                _ => break,
            }
            if self.pause(session / 4).await {
                return Ok(());
            }
        }
        if self.pause(session).await {
            return Ok(());
        }
        info!(id = %sub.id, partition = sub.task.partition_name, "requeued a subtask that an earlier lifetime left running");
        self.requeue_or_discard(sub, None, true).await
    }

    /// Writes a result that an earlier session could not write. The lock of that session is gone, or ends with it.
    async fn finish_late(&self, sub: &Found<SubTask>, unwritten: Unwritten) -> Result<(), Fault> {
        info!(id = %sub.id, partition = sub.task.partition_name, "writing the result of a runner that ended while ZooKeeper was away");
        let written = match self.unfinished_main(sub).await {
            Ok(Some(_)) => self.store.finish(sub, None, &unwritten.ended).await,
            Ok(None) => self.store.discard(sub).await,
            Err(fault) => Err(fault),
        };
        if written.is_err() {
            with(&self.unwritten, |all| all.insert(sub.id, unwritten));
        }
        written
    }

    /// Requeues a `Running` subtask that is not run, or discards it if its task has ended. `holder` is this unit's
    /// session that still holds its lock, if any; `counted` says whether this uses up a retry.
    async fn requeue_or_discard(
        &self,
        sub: &Found<SubTask>,
        holder: Option<i64>,
        counted: bool,
    ) -> Result<(), Fault> {
        if self.unfinished_main(sub).await?.is_some() {
            return self.store.requeue(sub, holder, counted).await;
        }
        if let Some(session) = holder {
            self.store.release(sub, session).await?;
        }
        self.store.discard(sub).await
    }
}
