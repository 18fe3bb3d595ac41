#!/bin/sh
# Runs a program of tests: PROGRAM [ARGUMENT]... Tests of whole systems wait for servers, so twice as many as processors
# run at once. Tests of `systems` wait most, for sessions and leases to expire.
case ${1##*/} in
    systems-*) each=4 ;;
    *) each=2 ;;
esac
: "${RUST_TEST_THREADS:=$((each * $(nproc)))}"
export RUST_TEST_THREADS
exec "$@"
