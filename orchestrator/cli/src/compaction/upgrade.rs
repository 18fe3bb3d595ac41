//! `allot compaction upgrade`: upgrades the tasks of version 1, and deletes its tree.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use futures_util::{StreamExt as _, TryStreamExt as _};

use super::session::Common;
use crate::outcome::Outcome;
use crate::progress;
use crate::terminal::{errln, write};
use allot_compaction::{Fault, TaskClient};
use allot_tools::upgrade::version_1::{ROOTS, Source};
use allot_tools::upgrade::{Step, Upgrade};

/// Tasks that are upgraded, or removed, concurrently.
const AT_ONCE: usize = 32;

/// The options of an upgrade.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print what would be done, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Delete the old tree and the locks, if every old task was upgraded.
    #[arg(long, conflicts_with = "from")]
    finalize: bool,
    /// Read the old tree from files: a directory that contains its Scheduler directory.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Processing cluster of the tasks [default: compaction.pc]
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
    #[command(flatten)]
    pub(super) common: Common,
}

/// Upgrades the tasks, or deletes the old tree.
pub(super) async fn run(client: &TaskClient, arguments: &Arguments) -> Result<Outcome> {
    let source = match &arguments.from {
        Some(dir) => Source::Files(dir.clone()),
        None => Source::Tree(client.coordinator.tree(), old_root(client, arguments).await?),
    };
    if !arguments.frozen
        && let Some((path, sign)) = source.sign_of_life().await?
    {
        let why = format!("the first generation still runs: {path} {sign}. Stop it, or say --frozen");
        return Err(Fault::Busy(why).into());
    }
    let place = source.place();
    let pc = arguments.pc.clone().unwrap_or_else(|| client.settings.pc.clone());
    let units = client.units().await?;
    let delete_after = client.settings.delete_after;
    let upgrade =
        Upgrade::new(client.store.clone(), source, units, pc, delete_after, arguments.dry_run).await?;
    for name in &arguments.skip {
        upgrade.skip(name, arguments.reason.as_deref().unwrap_or_default()).await?;
    }
    if arguments.finalize {
        finalize(&upgrade, arguments, &place).await
    } else {
        take(&upgrade, arguments, &place).await
    }
}

/// The root of the old tree.
async fn old_root(client: &TaskClient, arguments: &Arguments) -> Result<String> {
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
        return Err(Fault::Refused(why).into());
    }
    if tree.get(root).await?.is_none() {
        for other in ROOTS {
            if Source::is_at(&tree, other).await? {
                let why = format!("{root} is not there, but {other} is: which is meant?");
                return Err(Fault::Refused(why).into());
            }
        }
    } else if !Source::is_at(&tree, root).await? {
        let why = format!(
            "nothing of the first generation is under {root}: it has neither Scheduler nor TaskAssigned"
        );
        return Err(Fault::Refused(why).into());
    }
    Ok(root.to_owned())
}

async fn take(upgrade: &Upgrade, arguments: &Arguments, place: &str) -> Result<Outcome> {
    let names = upgrade.names().await?;
    let bar = progress::bar(names.len() as u64, "taking over");
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut odd = false;
    let step = |name| async move { (name, upgrade.step(name).await) };
    // Unfinished tasks come first, from old to new, since each waits for the one before it on its table.
    let (live, over) = Upgrade::order(&names);
    let live = futures_util::stream::iter(live).then(step);
    let steps = live.chain(futures_util::stream::iter(over).map(step).buffer_unordered(AT_ONCE));
    tokio::pin!(steps);
    while let Some((name, step)) = steps.next().await {
        let step = step?;
        let (kind, detail) = match step {
            Step::Passed => ("taken over before".to_owned(), None),
            Step::Written(state) => (format!("taken over as {state}"), Some(format!("becomes {state}"))),
            Step::Locked => (
                "there already, and locked now".to_owned(),
                Some("is there already; it gets its lock".to_owned()),
            ),
            Step::Skipped(why) => ("skipped".to_owned(), Some(format!("is skipped: {why}"))),
            Step::Gone => ("renamed or gone meanwhile; run it again".to_owned(), None),
            Step::Odd(why) => {
                odd = true;
                bar.suspend(|| errln!("allot: {name}: {why}"));
                ("not understood".to_owned(), None)
            }
        };
        if let Some(detail) = detail.filter(|_| arguments.dry_run && !arguments.common.json) {
            bar.suspend(|| write(&format!("{name} {detail}\n")))?;
        }
        *counts.entry(kind).or_default() += 1;
        bar.inc(1);
    }
    bar.finish_and_clear();
    if arguments.common.json {
        write(&format!(
            "{}\n",
            serde_json::json!({"dry_run": arguments.dry_run, "tasks": names.len(), "counts": counts})
        ))?;
    } else {
        let dry = if arguments.dry_run { " (nothing was written)" } else { "" };
        let mut text = format!("{} tasks in {place}{dry}\n", names.len());
        for (kind, count) in &counts {
            let _ = writeln!(text, "  {count} {kind}");
        }
        write(&text)?;
    }
    Ok(if odd { Outcome::CheckFailed } else { Outcome::Done })
}

async fn finalize(upgrade: &Upgrade, arguments: &Arguments, place: &str) -> Result<Outcome> {
    const SHOWN: usize = 20;
    let missing = upgrade.missing().await?;
    if !missing.is_empty() {
        let shown = missing.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n  ");
        let why =
            format!("{} old tasks are not taken over, and nothing was removed:\n  {shown}", missing.len());
        return Err(Fault::Busy(why).into());
    }
    let names = upgrade.names().await?;
    if arguments.dry_run {
        write(&format!("{} old tasks in {place} and their locks would be removed\n", names.len()))?;
        return Ok(Outcome::Done);
    }
    let bar = progress::bar(names.len() as u64, "removing");
    let remove = async |name: &String| upgrade.remove(name).await.inspect(|()| bar.inc(1));
    futures_util::stream::iter(&names).map(Ok).try_for_each_concurrent(AT_ONCE, remove).await?;
    upgrade.remove_rest().await?;
    bar.finish_and_clear();
    write(&format!("{} old tasks, {place} and the locks are removed\n", names.len()))?;
    Ok(Outcome::Done)
}
