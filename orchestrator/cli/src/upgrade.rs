//! `allot task upgrade`: takes over the tasks of the first generation, and deletes its tree.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use allot_compaction::TaskClient;
use allot_tools::upgrade::version_1::{ROOTS, Source};
use allot_tools::upgrade::{Step, Upgrade};
use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output::columns;

/// Tasks that are upgraded, or removed, concurrently.
const AT_ONCE: usize = 32;

columns! {
    COUNTS = place Text, tasks Number, dry_run Flag, counts Text;
}

/// The options of an upgrade.
#[derive(Debug, Args)]
pub(crate) struct Upgrading {
    /// Delete the old tree and the locks, if every old task was upgraded.
    #[arg(long, conflicts_with = "from")]
    finalize: bool,
    /// Read the old tree from files: a directory that contains its Scheduler directory.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Processing cluster of the tasks [default: default]
    #[arg(long)]
    pc: Option<String>,
    /// Path of the old tree in ZooKeeper [default: the first known path that exists]
    #[arg(long, value_name = "PATH")]
    old_root: Option<String>,
    /// Skip this old task, which cannot be read; may be repeated. The upgrade and --finalize pass over it then.
    #[arg(long, value_name = "NAME", requires = "reason", conflicts_with = "finalize")]
    skip: Vec<String>,
    /// Why tasks are skipped; recorded with them.
    #[arg(long, value_name = "TEXT", requires = "skip")]
    reason: Option<String>,
    /// Continue although version 1 seems to run.
    #[arg(long)]
    frozen: bool,
}

/// Upgrades the tasks, or deletes the old tree.
pub(crate) async fn run(context: &Context, client: &TaskClient, arguments: &Upgrading) -> Result {
    let source = match &arguments.from {
        Some(dir) => Source::Files(dir.clone()),
        None => Source::Tree(client.coordinator.tree(), old_root(client, arguments).await?),
    };
    if !arguments.frozen
        && let Some((path, sign)) = source.sign_of_life().await?
    {
        let why = format!("the first generation still runs: {path} {sign}. Stop it, or say --frozen");
        return Err(Failure::refused(why));
    }
    let place = source.place();
    let pc = arguments.pc.clone().unwrap_or_else(|| client.settings.pc.clone());
    let units = client.units().await?;
    let delete_after = client.settings.delete_after;
    let upgrade =
        Upgrade::new(client.store.clone(), source, units, pc, delete_after, context.dry_run).await?;
    for name in &arguments.skip {
        upgrade.skip(name, arguments.reason.as_deref().unwrap_or_default()).await?;
    }
    if arguments.finalize {
        finalize(context, &upgrade, &place).await
    } else {
        take(context, &upgrade, &place).await
    }
}

/// The root of the old tree.
async fn old_root(client: &TaskClient, arguments: &Upgrading) -> Result<String> {
    let tree = client.coordinator.tree();
    let Some(root) = &arguments.old_root else {
        for root in ROOTS {
            if Source::is_at(&tree, root).await? {
                return Ok(root.to_owned());
            }
        }
        let [usual, ..] = ROOTS;
        return Ok(usual.to_owned());
    };
    // Finalizing deletes the whole root, so the root must not overlap with the new tree.
    let (root, new) = (root.trim_end_matches('/'), client.settings.root.as_str());
    let within = |inner: &str, outer: &str| format!("{inner}/").starts_with(&format!("{outer}/"));
    if within(new, root) || within(root, new) {
        let why = format!(
            "'{root}' is, holds, or lies in {new}, where this generation's tasks are: name the old root"
        );
        return Err(Failure::refused(why));
    }
    if tree.get(root).await?.is_none() {
        for other in ROOTS {
            if Source::is_at(&tree, other).await? {
                let why = format!("{root} is not there, but {other} is: which is meant?");
                return Err(Failure::refused(why));
            }
        }
    } else if !Source::is_at(&tree, root).await? {
        let why = format!(
            "nothing of the first generation is under {root}: it has neither Scheduler nor TaskAssigned"
        );
        return Err(Failure::refused(why));
    }
    Ok(root.to_owned())
}

async fn take(context: &Context, upgrade: &Upgrade, place: &str) -> Result {
    let names = upgrade.names().await?;
    let total = names.len() as u64;
    let work =
        context.work("taking over", total, "tasks are taken over", "the same command again does the rest");
    let (mut counts, mut done): (BTreeMap<String, u64>, u64) = (BTreeMap::new(), 0);
    let mut odd = 0_u64;
    let step = |name| async move { (name, upgrade.step(name).await) };
    // Unfinished tasks come first, from old to new, since each waits for the one before it on its table.
    let (live, over) = Upgrade::order(&names);
    let live = futures_util::stream::iter(live).then(step);
    let steps = live.chain(futures_util::stream::iter(over).map(step).buffer_unordered(AT_ONCE));
    tokio::pin!(steps);
    while let Some((name, step)) = steps.next().await {
        let (kind, detail) = match step? {
            Step::Passed => ("taken over before".to_owned(), None),
            Step::Written(state) => (format!("taken over as {state}"), Some(format!("becomes {state}"))),
            Step::Locked => (
                "there already, and locked now".to_owned(),
                Some("is there already; it gets its lock".to_owned()),
            ),
            Step::Skipped(why) => ("skipped".to_owned(), Some(format!("is skipped: {why}"))),
            Step::Gone => ("renamed or gone meanwhile; run it again".to_owned(), None),
            Step::Odd(why) => {
                odd += 1;
                work.note(&format!("allot: {name}: {why}"));
                ("not understood".to_owned(), None)
            }
        };
        if let Some(detail) = detail.filter(|_| context.dry_run && context.out.is_table()) {
            work.note(&format!("{name} {detail}"));
        }
        *counts.entry(kind).or_default() += 1;
        done += 1;
        work.at(done, 0);
    }
    drop(work);
    let dry = if context.dry_run { " (nothing was written)" } else { "" };
    let mut said = format!("{total} tasks in {place}{dry}");
    for (kind, count) in &counts {
        let _ = write!(said, "\n  {count} {kind}");
    }
    let row: Value = json!({"place": place, "tasks": total, "dry_run": context.dry_run, "counts": counts});
    context.out.done(&said, COUNTS, &row)?;
    if odd > 0 {
        let hint = "--skip NAME --reason TEXT passes over a task";
        return Err(Failure::no(format!("{odd} tasks were not understood")).hint(hint));
    }
    Ok(())
}

async fn finalize(context: &Context, upgrade: &Upgrade, place: &str) -> Result {
    let missing = upgrade.missing().await?;
    if !missing.is_empty() {
        let count = missing.len();
        let why = format!("{count} old tasks are not taken over, and nothing was removed");
        return Err(Failure::refused(why).counted(missing, count));
    }
    let names = upgrade.names().await?;
    let count = names.len();
    context.confirm(&format!("remove {count} old tasks, {place} and the locks")).await?;
    let work =
        context.work("removing", count as u64, "tasks are removed", "the same command again does the rest");
    let done = std::sync::atomic::AtomicU64::new(0);
    let remove = async |name: &String| {
        upgrade.remove(name).await?;
        work.at(1 + done.fetch_add(1, std::sync::atomic::Ordering::Relaxed), 0);
        Ok::<(), allot_compaction::Fault>(())
    };
    futures_util::stream::iter(&names).map(Ok).try_for_each_concurrent(AT_ONCE, remove).await?;
    upgrade.remove_rest().await?;
    drop(work);
    let row = json!({"place": place, "tasks": count, "dry_run": false, "counts": {"removed": count}});
    context.out.done(&format!("{count} old tasks, {place} and the locks are removed"), COUNTS, &row)
}
