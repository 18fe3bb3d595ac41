#!/usr/bin/env bash
# `make run`: a redis-server with the module on loopback, shows loaded into it and a ticket rush on each, a pool of
# telephone numbers and a few calls, and the server left up for you. Ctrl-C stops it. Nothing is saved, and nothing outside of .run/ is written.
#
#   PLAN=FILE      load this seating plan (Allot's, pretix or CSV) and no example
#   LOAD=OPTIONS   options for loading it, e.g. --disambiguate
#   PORT=N         another port than 6380
#   RUN_ONCE=1     end after the demonstration; CI=true does the same
#   ALLOT_MODULE, ALLOT_ALLOTD, ALLOT_REDIS_SERVER   use these files instead of building and searching
set -euo pipefail
invoked_in=$PWD
cd "$(dirname "$0")/.."

PORT=${PORT:-6380}
PLAN=${PLAN:-}
LOAD=${LOAD:-}
server=${ALLOT_REDIS_SERVER:-redis-server}
pid=

die() {
    printf 'run: %s\n' "$@" >&2
    exit 1
}

stop() {
    [ -n "$pid" ] || return 0
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    pid=
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { printf '\n== %s\n' "$*"; }

allotd() { "$allotd" --redis "redis://127.0.0.1:$PORT" "$@"; }
redis() { redis-cli -3 -p "$PORT" "$@"; }

# Builds a package and names its file.
built() {
    local package=$1 name=$2
    cargo build --release -p "$package" >&2 || die "the build failed; if a tool is missing, make deps installs it"
    echo "${CARGO_TARGET_DIR:-target}/release/$name"
}

check_what_is_needed() {
    local tool
    for tool in "$server" redis-cli; do
        command -v "$tool" >/dev/null || die "there is no $tool; make deps installs it"
    done
    case $PORT in '' | *[!0-9]*) die "PORT=$PORT is no port; write a number, e.g. PORT=7000" ;; esac
    if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then
        die "something listens on port $PORT already; take another one: make run PORT=$((PORT + 1))"
    fi
    if [ -n "$PLAN" ]; then
        [[ $PLAN = /* ]] || PLAN=$invoked_in/$PLAN
        [ -r "$PLAN" ] || die "there is no file $PLAN; PLAN names a seating plan, e.g. PLAN=examples/train-16-coaches.csv"
    fi
}

start_server() {
    local log=.run/redis-$PORT.log
    mkdir -p .run
    "$server" --port "$PORT" --bind 127.0.0.1 --dir "$PWD/.run" --save '' --appendonly no --daemonize no \
        --loadmodule "$module" >"$log" 2>&1 </dev/null &
    pid=$!
    for _ in $(seq 100); do
        kill -0 "$pid" 2>/dev/null || break
        [ "$(redis-cli -p "$PORT" PING 2>/dev/null)" = PONG ] && return
        sleep 0.1
    done
    tail -n 20 "$log" >&2
    die "redis-server did not start; its log is $log. Allot needs Redis 7.0 or newer."
}

own_plan() {
    local options
    read -ra options <<<"$LOAD"
    step "loading $PLAN as show:mine"
    allotd seats load "$PLAN" --key show:mine "${options[@]}" ||
        die "the plan was not loaded; LOAD passes options on, e.g. make run PLAN=$PLAN LOAD=--disambiguate"
    step "200 buyers for 3 seconds"
    allotd seats rush show:mine --buyers 200 --duration 3
    step "what is left"
    allotd seats show show:mine
    show=show:mine
}

examples() {
    step "a theatre of 1,208 seats, from a pretix seating plan"
    allotd seats load examples/theatre.pretix.json --key show:theatre
    step "a stadium of 60,000 seats, from a plan of our own; the last of its 114 blocks"
    allotd seats load examples/stadium.plan.json --key show:stadium | tail -n 4
    step "a train of 16 coaches, from a table"
    allotd seats load examples/train-16-coaches.csv --key show:train | tail -n 4
    step "the theatre: 250 buyers in the same instant, one purchase each; those not confirmed come back"
    allotd seats rush show:theatre --buyers 250
    step "the train: 100 families of 4"
    allotd seats rush show:train --buyers 100 --seats 4
    step "the stadium: 1,000 buyers for 3 seconds"
    allotd seats rush show:stadium --buyers 1000 --duration 3
    step "the theatre's stalls afterwards"
    allotd seats show show:theatre --area stalls
    show=show:theatre
}

numbers() {
    step "a call centre's 1,000 numbers, from a table with spaces in them; switch east registers them all"
    allotd numbers load examples/numbers.csv --key {sales}:pool --strip --register --switch east
    step "a call gets the number that is free longest; its hangup comes twice and does nothing the second time"
    redis NUMPOOL.CALL {sales}:pool LEASE call-1 TTL 60000 PEER +493012345678
    redis NUMPOOL.HANGUP {sales}:pool +442079460000 LEASE call-1
    redis NUMPOOL.HANGUP {sales}:pool +442079460000 LEASE call-1
    step "the same customer again: the number that she saw the last time"
    redis NUMPOOL.CALL {sales}:pool LEASE call-2 TTL 60000 PEER +493012345678 PICK STICKY
    step "the pool"
    allotd numbers show {sales}:pool
}

hint() {
    cat <<END

The server is up on 127.0.0.1:$PORT; Ctrl-C stops it, and nothing is kept. In another terminal:

  redis-cli -3 -p $PORT
  SEAT.STAT $show
  SEAT.HOLD $show you 2 TTL 60000 TOKEN mine
  SEAT.CONFIRM $show mine USER you ORDER order-1
  SEAT.ORDER $show order-1
  COMMAND DOCS SEAT.HOLD
  NUMPOOL.CALL {sales}:pool TTL 60000 PREFIX +44

README.md has a first session from an empty show on; docs/seats.md and docs/numbers.md have every command.
END
}

check_what_is_needed
# From the root on: the server looks for its module in its own folder.
module=$(realpath "${ALLOT_MODULE:-$(built allot-module liballot.so)}")
allotd=$(realpath "${ALLOT_ALLOTD:-$(built allot-orchestrator allotd)}")
start_server
if [ -n "$PLAN" ]; then own_plan; else
    examples
    numbers
fi
if [ "${RUN_ONCE:-}" = 1 ] || [ "${CI:-}" = true ]; then
    step "done"
    exit 0
fi
hint
wait "$pid" || true
die "redis-server has ended; its log is .run/redis-$PORT.log"
