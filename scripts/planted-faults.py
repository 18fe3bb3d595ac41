#!/usr/bin/env python3
"""Shows that the simulations and the exploration of failovers find faults: plants one fault at a time in a copy of the
sources, and runs a simulation or the exploration on the copy until it fails. Each fault takes a check or a rule out of
the product.

    scripts/planted-faults.py              all faults
    scripts/planted-faults.py NAME ...     these faults
    scripts/planted-faults.py --list       names and meanings
    scripts/planted-faults.py --check      only looks whether the sources have the texts that faults replace
    scripts/planted-faults.py --no-run ... only builds the tests, as target/planted-faults/NAME

Prints how many seeds each fault needed, or how many states. Fails if a fault is not found, or if the text that a fault
replaces is no longer in the sources: the fault must then be planted where its rule is now.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONF = "module/core/src/conf/"
ROLES = "orchestrator/daemon/src/roles/"
MESSAGES = ROLES + "media_unit/unit/messages.rs"
SYSTEM = ("allot-simulation", "faults::nothing_is_lost_or_used_twice")
COMPACTION = ("allot-compaction", "simulation::failing_units_neither_lose_nor_duplicate_work")
FAILOVERS = ("allot-core", "exploration::failover_that_loses_the_last_commands_undoes_no_end")
# The test program of a package that has several, and the folder of a package that is not in orchestrator/.
PROGRAMS = {"allot-core": ["--test", "conf"], "allot-simulation": ["--test", "simulation"]}
FOLDERS = {"allot-core": "module/core"}
# The most seeds that a fault may need.
SEEDS = 2000

# A unit that ends its copy because it was told RELEASE does not say so: its CONF.ENDED counts as an end by people.
UNIT_HIDES_RELEASES = (MESSAGES, 'ended.arg("RELEASED");', "let _ = &mut ended;")

# name: (meaning, (package, test), [(file, text, replacement), ...])
FAULTS = {
    "adopts-released-copies": (
        "the realm adopts a copy that was never acknowledged, or whose unit was told RELEASE",
        SYSTEM,
        [
            (
                CONF + "model/assignment.rs",
                "self.opened.is_some() && self.is_lost()",
                "self.ended_as_lost()",
            ),
            (MESSAGES, 'if answer == b"RELEASE" =>', "if answer == b\"NEVER\" =>"),
            (MESSAGES, "replies.retain(|reply| reply.opened.is_none());", ""),
            UNIT_HIDES_RELEASES,
        ],
    ),
    "absence-is-an-end": (
        "a conference that is missing in its unit's report counts as ended by people",
        SYSTEM,
        [
            (
                CONF + "decide/reconcile_report.rs",
                "let event = self.realm.gone(conference, Trigger::Lacks, Cause::Missing, self.now);",
                "let end = super::lookups::ended_by_unit(conference, Cause::Missing, false);\n"
                "        let gone = self.realm.gone(conference, Trigger::Lacks, Cause::Missing, self.now);\n"
                "        let event = gone.map(|_| conference.event(end));",
            ),
            UNIT_HIDES_RELEASES,
        ],
    ),
    "scheduler-uses-up-its-rate": (
        "the scheduler never refills the rate limit of recovery",
        SYSTEM,
        [
            (
                ROLES + "scheduler/rate_limiter.rs",
                "let more = passed.as_secs_f64() * self.per_second;",
                "let more = 0.0 * passed.as_secs_f64() * self.per_second;",
            ),
        ],
    ),
    "unit-acknowledges-before-it-is-ready": (
        "a media unit answers CREATE as soon as its program runs, although nobody can join yet",
        SYSTEM,
        [
            (
                MESSAGES,
                "let (start, started) = self.media.start(&self.cmu, &e164, epoch, &params);",
                "let (start, _) = self.media.start(&self.cmu, &e164, epoch, &params);\n"
                "                let started = std::future::ready(Ok(()));",
            ),
        ],
    ),
    "unit-hides-failures": (
        "a media unit does not say that a program has failed for good, and reports its conference as if it ran",
        SYSTEM,
        [
            (
                ROLES + "media_unit/unit.rs",
                "let epochs = self.conferences.remove(&e164);\n"
                "                invariant(epochs.is_some(), \"media fails of a conference that the unit has\");",
                "let epochs = None::<Vec<u64>>;",
            ),
        ],
    ),
    "drain-ends-with-its-unit": (
        "a unit that joins on a drained host takes conferences",
        SYSTEM,
        [
            (
                CONF + "model/indexes.rs",
                "let unit = Unit { drained: self.drained.contains_key(&host), ..unit };",
                "let unit = Unit { drained: false, ..unit };",
            ),
        ],
    ),
    "refused-creations-end": (
        "a creation that its unit refuses ends, although other units have room",
        SYSTEM,
        [
            (
                CONF + "decide/due.rs",
                "let is_first = !conference.recovering && conference.ending.is_none();",
                "let is_first = !conference.recovering && conference.ending.is_none() && now < 0;",
            ),
        ],
    ),
    "lost-changes-reach-media": (
        "a program keeps the end or the size that a failover lost",
        SYSTEM,
        [(CONF + "decide/reconcile_report.rs", "        if corrects {\n", "        if corrects && self.now < 0 {\n")],
    ),
    "unit-never-ends-its-copies": (
        "media of a unit that is cut off goes on after another unit may have it",
        ("allot-simulation", "two_copies::unit_that_is_cut_off_from_both_ends_its_copies_before_others_begin"),
        [
            (
                ROLES + "media_unit/unit/exclusivity.rs",
                "self.is_limited.then(|| self.lock()",
                "(self.is_limited && false).then(|| self.lock()",
            ),
        ],
    ),
    "failover-ends-media": (
        "media ends when the lease of its unit ends, although ZooKeeper confirms the unit",
        ("allot-simulation", "two_copies::nothing_stops_when_a_unit_is_cut_off_from_zookeeper_or_from_redis_for_a_failover"),
        [
            (
                ROLES + "media_unit/unit/exclusivity.rs",
                "self.node_protects_until().map_or(by_lease, |until| by_lease.max(earlier(until, late_answers)))",
                "let _ = late_answers;\n        by_lease",
            ),
        ],
    ),
    "empty-realm-ends-media": (
        "a realm does not take the copies of assignments that it lost back, but ends them",
        ("allot-simulation", "data_loss::nothing_stops_and_nothing_starts_when_redis_is_empty"),
        [
            (
                CONF + "event/adoption.rs",
                "is_absent && self.has_lost(cmu, epoch, now) && self.is_new_origin(epoch)",
                "is_absent && self.has_lost(cmu, epoch, now) && self.is_new_origin(epoch) && now < 0",
            ),
        ],
    ),
    "proxy-acknowledges-first": (
        "a data proxy acknowledges messages before it has written them",
        SYSTEM,
        [
            (
                ROLES + "data_proxy.rs",
                "        let (mut written, mut refused) = (0, 0);\n",
                "        group.acknowledge(entries).await?;\n        let (mut written, mut refused) = (0, 0);\n",
            ),
        ],
    ),
    "unit-forgets-details": (
        "a media unit does not send its details again after EPOCH",
        SYSTEM,
        [(MESSAGES, "Action::SendDetails { e164 } => self.details.resend(&e164),", "Action::SendDetails { .. } => {}")],
    ),
    "later-epochs-hide-lost-ends": (
        "an end by people at an epoch that a failover lost does not count once a later epoch is known",
        FAILOVERS,
        [
            (
                CONF + "decide/lookups.rs",
                "&& self.has_lost(cmu, epoch, now)",
                "&& epoch > self.last_epoch && self.has_lost(cmu, epoch, now)",
            ),
        ],
    ),
    "creations-outlive-lost-ends": (
        "an end by people at an epoch that a failover lost does not count while the conference is creating",
        FAILOVERS,
        [
            (
                CONF + "model/transitions.rs",
                "Trigger::EndedByUnknownCopy => [Nothing, Ended,         Ended,         Ended,         Ended,         Ended],",
                "Trigger::EndedByUnknownCopy => [Nothing, Ended,         Ended,         Nothing,       Ended,         Ended],",
            ),
        ],
    ),
    "accounts-withdraw-at-once": (
        "the accounts role withdraws a revoked account before its instance has released it",
        SYSTEM,
        [
            (
                ROLES + "accounts/reconcile.rs",
                "let must_release = held && !released;",
                "let must_release = held && !released && shown.revoked.is_none();",
            ),
        ],
    ),
    "compaction-does-not-wait": (
        "a worker starts a subtask again as soon as the lock of its earlier lifetime has disappeared",
        COMPACTION,
        [
            (
                "orchestrator/compaction/src/worker/recovery.rs",
                "if self.pause(session).await {",
                "if self.pause(session.mul_f64(0.0)).await {",
            ),
        ],
    ),
}


def copy_sources(tree: Path) -> None:
    """Copies all files of the repository. An unchanged file keeps its time, so that cargo does not build it again.

    Not the configuration of cargo: the one of the repository applies to its subfolders. Both together would be another
    configuration, and cargo would build all dependencies for it.
    """
    tree.mkdir(parents=True, exist_ok=True)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, names.decode().split("\0")):
        source, copy = ROOT / name, tree / name
        if not source.exists() or name.startswith(".cargo/"):
            continue
        data = source.read_bytes()
        if not copy.exists() or copy.read_bytes() != data:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data)


def check(tree: Path, name: str, edits: list) -> None:
    """Ends the program unless the sources have each text that a fault replaces exactly once."""
    for file, text, _ in edits:
        count = (tree / file).read_text().count(text)
        if count != 1:
            sys.exit(f"{name}: {file} has {count} times, and not once: {text}")


def plant(tree: Path, name: str, edits: list) -> None:
    check(tree, name, edits)
    for file, text, replacement in edits:
        path = tree / file
        path.write_text(path.read_text().replace(text, replacement))


def build(tree: Path, name: str) -> Path:
    """Plants a fault and builds the test of its package; the test's executable."""
    _, (package, _), edits = FAULTS[name]
    copy_sources(tree)
    plant(tree, name, edits)
    command = ["cargo", "test", "-p", package, *PROGRAMS.get(package, []), "--no-run"]
    command += ["--message-format", "json-render-diagnostics"]
    # Not the folder of the repository's builds: cargo takes a package of the copy for that of the repository, and would
    # run the tests of the copy there, faults and all, whatever changes in the repository afterwards.
    environment = os.environ | {"CARGO_TARGET_DIR": str(tree.parent / "build")}
    done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{name}: the sources with this fault do not compile")
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    built = [message for message in messages if message.get("executable") and message["profile"]["test"]]
    executable = tree.parent / name
    shutil.copyfile(built[0]["executable"], executable)
    executable.chmod(0o755)
    return executable


def run(tree: Path, name: str, executable: Path) -> bool:
    """Runs the simulation until it fails."""
    meaning, (package, test), _ = FAULTS[name]
    began = time.monotonic()
    environment = os.environ | {"ALLOT_SEEDS": str(SEEDS), "RUST_BACKTRACE": "0"}
    folder = tree / FOLDERS.get(package, "orchestrator/" + package.removeprefix("allot-"))
    done = subprocess.run([executable, "--exact", test], cwd=folder, env=environment, capture_output=True, text=True)
    output = done.stdout + done.stderr
    executable.with_suffix(".log").write_text(output)
    if "running 1 test" not in output:
        sys.exit(f"{name}: there is no test {test} in {package}")
    seed, states = re.search(r"seed (\d+)", output), re.search(r"(\d+) states", output)
    found = done.returncode != 0 and (seed is not None or states is not None)
    if seed:
        needed = f"{int(seed[1]) + 1} seeds"
    else:
        needed = f"{states[1]} states" if states else f"{SEEDS} seeds"
    print(f"{name}: {'found after' if found else 'NOT FOUND in'} {needed}, {time.monotonic() - began:.0f} s ({meaning})", flush=True)
    return found


def main() -> None:
    names = sys.argv[1:]
    if names == ["--list"]:
        for name, (meaning, *_) in FAULTS.items():
            print(f"{name}: {meaning}")
        return
    if names == ["--check"]:
        for name, (_, _, edits) in FAULTS.items():
            check(ROOT, name, edits)
        return
    runs = "--no-run" not in names
    names = [name for name in names if name != "--no-run"]
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        sys.exit(f"no such fault: {' '.join(unknown)} (see --list)")
    tree = ROOT / "target" / "planted-faults" / "tree"
    executables = {name: build(tree, name) for name in names or FAULTS}
    found = [run(tree, name, executable) for name, executable in executables.items() if runs]
    if not all(found):
        sys.exit(1)


if __name__ == "__main__":
    main()
