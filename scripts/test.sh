#!/usr/bin/env bash
# Runs all tests, once `make test-programs` has built what they start.
#
# Tests of whole systems mostly wait for servers. All others compute, and so does the compiler that builds them; the
# systems of compaction, with their thousands of tasks, compute as well. So both kinds run at once, and those that compute
# have the time that the others leave. Their output comes last.
set -euo pipefail
cd "$(dirname "$0")/.."

log=target/computing-tests.log
# As many tests of systems as keep the processors busy now and then.
systems_at_once=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
# A test that looked for these itself would wait for the compiler.
export ALLOT_MODULE=${ALLOT_MODULE:-$PWD/target/release/liballot.so}
export ALLOT_ALLOTD=${ALLOT_ALLOTD:-$PWD/target/debug/allotd}

# A test program is a folder or a file here, so none is forgotten.
waiting=()
for path in tests/tests/*; do
    name=$(basename "$path" .rs)
    [ "$name" = compaction ] || waiting+=("--test=$name")
done

computing_tests() {
    local passed=true
    cargo test --workspace --exclude allot-tests --no-fail-fast || passed=false
    RUST_TEST_THREADS=$systems_at_once cargo test --workspace --test=compaction || passed=false
    $passed
}
export -f computing_tests
export systems_at_once

# Only one cargo at a time compiles. The systems come first, so the others begin when nothing of the systems is left to
# be compiled.
cargo test --workspace --no-run --test=compaction "${waiting[@]}"
setsid nice -n 19 bash -c 'sleep 5 && computing_tests' >"$log" 2>&1 &
computing=$!
# Ctrl-C does not reach it.
trap 'kill -- "-$computing" 2>/dev/null || true' EXIT

passed=true
RUST_TEST_THREADS=$systems_at_once cargo test --workspace --no-fail-fast "${waiting[@]}" || passed=false
wait "$computing" || passed=false
trap - EXIT
cat "$log"
$passed || { echo "test: some tests failed; those that wait for servers are above those that compute" >&2; exit 1; }
