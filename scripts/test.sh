#!/usr/bin/env bash
# Runs all tests, once `make test-programs` has built what they start.
#
# Tests of whole systems mostly wait for servers. All others compute, and so does the compiler that builds them. So both
# run at once, and those that compute have the time that the systems leave. Their output follows that of the systems.
set -euo pipefail
cd "$(dirname "$0")/.."

log=target/computing-tests.log
# As many tests of systems as keep the processors busy now and then.
at_once=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
# A test that looked for these itself would wait for the compiler.
export ALLOT_MODULE=${ALLOT_MODULE:-$PWD/target/release/liballot.so}
export ALLOT_ALLOTD=${ALLOT_ALLOTD:-$PWD/target/debug/allotd}

# A test program is a folder or a file here, so none is forgotten. Compaction, with its thousands of tasks, computes as
# well, so it comes last.
systems=()
for path in tests/tests/*; do
    name=$(basename "$path" .rs)
    [ "$name" = compaction ] || systems+=("--test=$name")
done
test_systems() { RUST_TEST_THREADS=$at_once cargo test --workspace --no-fail-fast "$@"; }

# Only one cargo at a time compiles. The others begin when nothing of the systems is left to be compiled.
cargo test --workspace --no-run --test=compaction "${systems[@]}"
setsid nice -n 19 bash -c 'sleep 5 && exec cargo test --workspace --exclude allot-tests --no-fail-fast' >"$log" 2>&1 &
computing=$!
# Ctrl-C does not reach it.
trap 'kill -- "-$computing" 2>/dev/null || true' EXIT

passed=true
test_systems "${systems[@]}" || passed=false
test_systems --test=compaction || passed=false
wait "$computing" || passed=false
trap - EXIT
cat "$log"
$passed || { echo "test: some tests failed; those of systems are above those that compute" >&2; exit 1; }
