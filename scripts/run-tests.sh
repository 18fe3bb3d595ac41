#!/bin/sh
# Runs a program of tests: PROGRAM [ARGUMENT]... Tests wait for servers, so twice as many as processors run at once.
# Those of the program `systems` wait for sessions and leases to expire as well, so four times as many do.
case ${1##*/} in
    systems-*) each=4 ;;
    *) each=2 ;;
esac
: "${RUST_TEST_THREADS:=$((each * $(nproc)))}"
export RUST_TEST_THREADS
exec "$@"
