//! Recovers subtasks that an earlier lifetime of a unit left running: it writes the end that it has kept, or requeues them.

use tracing::info;

use super::Worker;
use crate::fault::Fault;
use crate::ids::TaskId;
use crate::task::SubTask;
use crate::task_store::Found;

impl Worker {
    /// Writes the end of a subtask in this unit's inbox that an earlier session could not write. Returns `false` if there
    /// is none. The lock of that session is gone, or ends with it.
    pub(super) async fn write_kept(&self, sub: &Found<SubTask>) -> Result<bool, Fault> {
        let Some(kept) = self.kept.get(sub.id) else { return Ok(false) };
        let is_of = kept.is_of(sub);
        if is_of && self.unfinished_main(sub).await?.is_none() {
            self.store.discard(sub).await?;
        } else if is_of && let Some(ended) = &kept.ended {
            self.store.finish(sub, None, ended).await?;
            info!(id = %sub.id, partition = sub.task.partition_name, "wrote the result of a runner that ended while ZooKeeper was away");
        } else if is_of {
            self.store.requeue(sub, &sub.task.worker, None, false).await?;
            info!(id = %sub.id, partition = sub.task.partition_name, "requeued a subtask that was ended because ZooKeeper was away");
        }
        self.kept.forget(sub.id).await;
        Ok(is_of)
    }

    /// Writes the results of subtasks that were given to other units meanwhile and wait there. `own` are the subtasks in
    /// this unit's inbox.
    pub(super) async fn write_kept_elsewhere(&self, own: &[TaskId]) -> Result<(), Fault> {
        for id in self.kept.ids() {
            let Some(kept) = self.kept.get(id).filter(|_| !own.contains(&id)) else { continue };
            if let Some(ended) = &kept.ended
                && let Some(sub) = self.store.find_sub(id).await?
                && kept.is_before(&sub)
                && self.unfinished_main(&sub).await?.is_some()
            {
                self.store.finish(&sub, None, ended).await?;
                info!(%id, worker = sub.task.worker, "wrote the result of a runner whose subtask waited at another compaction node");
            }
            self.kept.forget(id).await;
        }
        Ok(())
    }

    /// Recovers a subtask that an earlier lifetime left `Running`. The subtask starts again when that lifetime cannot
    /// be running it any more: one session timeout after its lock has disappeared.
    pub(super) async fn recover(&self, sub: &Found<SubTask>) -> Result<(), Fault> {
        if self.write_kept(sub).await? {
            return Ok(());
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

    /// Requeues a `Running` subtask that is not run, or discards it if its task has ended. `holder` is this unit's
    /// session that still holds its lock, if any; `counted` says whether this uses up a retry.
    async fn requeue_or_discard(
        &self,
        sub: &Found<SubTask>,
        holder: Option<i64>,
        counted: bool,
    ) -> Result<(), Fault> {
        if self.unfinished_main(sub).await?.is_some() {
            return self.store.requeue(sub, &sub.task.worker, holder, counted).await;
        }
        if let Some(session) = holder {
            self.store.release(sub, session).await?;
        }
        self.store.discard(sub).await
    }
}
