#!/usr/bin/env bash
# `make run`: a demonstration on loopback. Starts a redis-server with the module, loads shows and sells them under load,
# and makes some calls with a pool of telephone numbers. Starts a ZooKeeper, a scheduler and three media units, and kills
# one of the units, whose conferences other units recover. Shows a book of rented accounts, and two units of compaction
# that shrink some files. A console shows all of it in a browser, from the first show on. Everything keeps running until
# Ctrl-C. Nothing is saved, and only .run/ is written.
#
#   PLAN=FILE      load this seating plan (Allot's, pretix or CSV) and no example
#   LOAD=OPTIONS   options for loading it, e.g. --disambiguate
#   PORT=N         another port than 6380
#   RUN_ONCE=1     end after the demonstration; CI=true does the same
#   ALLOT_MODULE, ALLOT_ALLOTD, ALLOT_CLI, ALLOT_REDIS_SERVER, ALLOT_ZOOKEEPER_CLASSPATH   use these instead of
#                  building and searching
set -euo pipefail
invoked_in=$PWD
cd "$(dirname "$0")/.."

PORT=${PORT:-6380}
PLAN=${PLAN:-}
LOAD=${LOAD:-}
server=${ALLOT_REDIS_SERVER:-redis-server}
zookeeper=${ALLOT_ZOOKEEPER_CLASSPATH:-/usr/share/java/zookeeper.jar}
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
pid=
# The programs that run in addition to the server, by name.
declare -A others=()

die() {
    printf 'run: %s\n' "$@" >&2
    exit 1
}

stop() {
    local name
    for name in "${!others[@]}"; do kill "${others[$name]}" 2>/dev/null || true; done
    for name in "${!others[@]}"; do wait "${others[$name]}" 2>/dev/null || true; done
    others=()
    [ -n "$pid" ] || return 0
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    pid=
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { printf '\n== %s\n' "$*"; }

allot() { "$allot" --server "127.0.0.1:$PORT" "$@"; }
redis() { redis-cli -3 -p "$PORT" "$@"; }

# Builds packages with a profile and a niceness.
build() { nice -n "$2" cargo build --profile "$1" "${@:3}" >&2 || die "the build failed; if a tool is missing, make deps installs it"; }

# Where the build with a profile puts a file. An absolute path: the server would resolve a relative one from its own
# folder.
built() { realpath "${CARGO_TARGET_DIR:-target}/$1/$2"; }

check_what_is_needed() {
    local tool
    for tool in "$server" redis-cli "$java"; do
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

# A free port above this one.
free_port() {
    local port
    for port in $(seq $(($1 + 1)) $(($1 + 200))); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
    done
    die "there is no free port above $1"
}

# Starts a program in the background, with its output in .run/NAME.log.
background() {
    local name=$1
    shift
    "$@" >".run/$name-$PORT.log" 2>&1 </dev/null &
    others[$name]=$!
}

# Waits until a command succeeds, for at least 30 seconds.
until_true() {
    local what=$1
    shift
    for _ in $(seq 300); do
        "$@" && return
        sleep 0.1
    done
    die "waited in vain for $what; the logs are in .run/"
}

# A server that has just started may accept a request and never answer.
zookeeper_is_up() {
    timeout 2 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$1" && echo srvr >&3 && grep -q ^Mode: <&3' - "$zookeeper_port" \
        2>/dev/null
}

# Whether the server is up or has ended: another program may have taken its port since the check.
zookeeper_is_decided() { zookeeper_is_up || ! kill -0 "${others[zookeeper]}" 2>/dev/null; }

start_zookeeper() {
    local folder=.run/zookeeper-$PORT
    zookeeper_port=$PORT
    for _ in 1 2 3; do
        rm -rf "$folder"
        mkdir -p "$folder"
        zookeeper_port=$(free_port "$zookeeper_port")
        printf '%s\n' tickTime=500 "dataDir=$PWD/$folder" "clientPort=$zookeeper_port" clientPortAddress=127.0.0.1 \
            admin.enableServer=false '4lw.commands.whitelist=srvr' maxClientCnxns=0 >"$folder/zoo.cfg"
        background zookeeper "$java" -Xmx256m -cp "$folder:$zookeeper" \
            org.apache.zookeeper.server.quorum.QuorumPeerMain "$folder/zoo.cfg"
        until_true "ZooKeeper" zookeeper_is_decided
        zookeeper_is_up && return
    done
    die "ZooKeeper does not start; the logs are in .run/"
}

# Starts a process of the conference system.
part() {
    local name=$1
    shift
    background "$name" "$allotd" run --redis-url "redis://127.0.0.1:$PORT" --zookeeper-servers "127.0.0.1:$zookeeper_port" \
        --name "$name" --media-unit-host "127.0.0.1/$name" "$@"
}

conferences_are() { [ "$(allot conference list --state open --format jsonl | wc -l)" = "$1" ]; }
unit_b_is_down() { allot unit list 2>/dev/null | grep -q 'unit-b  *down '; }
units_are() { [ "$(allot unit list 2>/dev/null | grep -c ' up ')" = "$1" ]; }

conferences() {
    step "a ZooKeeper, a scheduler with a data proxy, and three media units"
    start_zookeeper
    console --zookeeper-servers "127.0.0.1:$zookeeper_port"
    redis CONF.REALM {allot}:conf LICENCES 100 >/dev/null
    part scheduler --roles scheduler,data-proxy
    local unit
    for unit in a b c; do part "unit-$unit" --roles media-unit --media-unit-chatter 1s; done
    until_true "three units" units_are 3
    step "twelve conferences of an hour; each goes to the unit that has most room"
    local number
    for number in $(seq -w 12); do
        allot conference create "49301$number" --end 1h >/dev/null
    done
    until_true "twelve conferences" conferences_are 12
    allot unit list
    step "unit b is killed, and nothing announces its death"
    local began=$SECONDS
    kill -9 "${others[unit-b]}"
    wait "${others[unit-b]}" 2>/dev/null || true
    unset 'others[unit-b]'
    until_true "unit b to be declared down" unit_b_is_down
    until_true "its conferences" conferences_are 12
    echo "its conferences are open again on the others, about $((SECONDS - began)) seconds later"
    allot unit list
    step "a conference that was on it, with its assignments"
    allot conference get 4930102
}

accounts() {
    local book={allot}:accounts
    step "twelve rented accounts, from a table: two modules of a department, so much a month at the flat price"
    allot book apply examples/accounts.csv --instances 2 --book "$book" --zookeeper "127.0.0.1:$zookeeper_port"
    step "two instances of a module come, and have four accounts each"
    redis ACCOUNT.ATTACH "$book" orders srv-a:7001 >/dev/null
    redis ACCOUNT.ATTACH "$book" orders srv-b:7001 | tail -n 6
    step "one of them logs in with an account and sends 1,200 instructions; another terminal is refused"
    local account epoch
    account=$(redis --json ACCOUNT.PICK "$book" orders srv-a:7001 | sed -E 's/.*"account":"([^"]+)".*/\1/')
    epoch=$(redis --json ACCOUNT.LOGIN "$book" "$account" srv-a:7001 terminal-1 TTL 60000 |
        sed -E 's/.*"epoch":([0-9]+).*/\1/')
    redis ACCOUNT.USE "$book" "$account" "$epoch" COUNT 1200
    redis ACCOUNT.LOGIN "$book" "$account" srv-a:7001 terminal-2 TTL 60000 || true
    step "the state of the book, with the forecast of the month's cost"
    allot book get "$book"
}

compaction() {
    local data=$PWD/.run/tables-$PORT unit id
    step "six SQLite files full of deleted rows, and two units that run VACUUM on them"
    rm -rf "$data"
    # Each table has a directory of its own.
    mkdir -p "$data/shop/orders"
    python3 - "$data/shop/orders" <<'END'
import sqlite3, sys
for n in range(6):
    base = sqlite3.connect(f"{sys.argv[1]}/orders-{n}.db")
    base.execute("create table orders(x)")
    base.executemany("insert into orders values(?)", [("x" * 500,)] * 2000)
    base.execute("delete from orders where rowid > 20")
    base.commit()
    base.close()
END
    du -sh "$data" | cut -f 1
    for unit in 1 2; do
        part "compaction-$unit" --roles compaction --compaction-node "host${unit}_9876" \
            --compaction-runner "$PWD/examples/compaction/sqlite" --compaction-partitions-dir "$data/{db}/{table}"
    done
    export ALLOT_ZOOKEEPER=127.0.0.1:$zookeeper_port
    until_true "two units of compaction" units_of_compaction_are 2
    id=$(allot task submit shop.public.orders --wait)
    allot task get "$id"
    du -sh "$data" | cut -f 1
}

# The console finds ZooKeeper only if it is named, and ZooKeeper starts late: it is started again then.
console() {
    if [ -n "${others[console]:-}" ]; then
        kill "${others[console]}" 2>/dev/null || true
        wait "${others[console]}" 2>/dev/null || true
    else
        console_port=$(free_port 8469)
    fi
    background console "$allot" console --redis-url "redis://127.0.0.1:$PORT" \
        --console-listen "127.0.0.1:$console_port" "$@"
    [ $# -gt 0 ] || step "the console is at http://127.0.0.1:$console_port/ and shows everything that follows"
}

units_of_compaction_are() { [ "$(allot node list 2>/dev/null | grep -c _9876)" = "$1" ]; }

first_show() {
    step "a show of 20 seats: two neighbours are held for a user, and sold"
    redis -e SEAT.CREATE show:first '{"areas":[{"id":"hall","rows":[
        {"label":"A","rank":1,"tier":"all","seats":"1-10"},{"label":"B","rank":2,"tier":"all","seats":"1-10"}]}]}'
    redis -e SEAT.HOLD show:first ann 2 TTL 60000 TOKEN cart-1
    redis -e SEAT.CONFIRM show:first cart-1 USER ann ORDER order-1
    redis -e SEAT.STAT show:first
}

own_plan() {
    local options
    read -ra options <<<"$LOAD"
    step "loading $PLAN as show:mine"
    allot show create show:mine "$PLAN" "${options[@]}" ||
        die "the plan was not loaded; LOAD passes options on, e.g. make run PLAN=$PLAN LOAD=--disambiguate"
    step "200 buyers for 3 seconds"
    allot show rehearse --really show:mine --yes --buyers 200 --duration 3s
    step "the remaining seats"
    allot show get show:mine --map
    show=show:mine
}

examples() {
    step "a theatre of 1,208 seats, from a pretix seating plan"
    allot show create show:theatre examples/theatre.pretix.json
    step "a stadium of 60,000 seats in 114 blocks, from a plan of our own"
    allot show create show:stadium examples/stadium.plan.json
    step "a train of 16 coaches, from a table"
    allot show create show:train examples/train-16-coaches.csv
    step "three halls whose plans say where the seats are: stands around a pitch, a concert hall, tables of eight"
    for hall in ball-park concert-hall gala; do
        allot show create "show:$hall" "examples/$hall.plan.json"
    done
    step "the theatre: 250 buyers in the same instant, one purchase each; those not confirmed come back"
    allot show rehearse --really show:theatre --yes --buyers 250
    step "the train: 100 families of 4"
    allot show rehearse --really show:train --yes --buyers 100 --seats 4
    step "the stadium: 1,000 buyers for 3 seconds"
    allot show rehearse --really show:stadium --yes --buyers 1000 --duration 3s
    step "the theatre's stalls afterwards"
    allot show get show:theatre --map --area stalls
    show=show:theatre
}

numbers() {
    step "a call centre's 1,000 numbers, from a table with spaces in them; switch east registers them all"
    allot pool load {sales}:pool examples/numbers.csv --strip --register --switch east
    step "a call gets the number that is free longest; its hangup comes twice and does nothing the second time"
    redis NUMPOOL.CALL {sales}:pool LEASE call-1 TTL 60000 PEER +493012345678
    redis NUMPOOL.HANGUP {sales}:pool +442079460000 LEASE call-1
    redis NUMPOOL.HANGUP {sales}:pool +442079460000 LEASE call-1
    step "the same customer again: the number that she saw the last time"
    redis NUMPOOL.CALL {sales}:pool LEASE call-2 TTL 60000 PEER +493012345678 PICK STICKY
    step "the pool"
    allot pool get {sales}:pool
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
  NUMPOOL.CALL {sales}:pool TTL 60000 PREFIX 1 +44

The console shows all of it: http://127.0.0.1:$console_port/

README.md has a first session from an empty show on; docs/ has every command.
END
    [ ${#others[@]} -eq 0 ] || cat <<END

The conference system is up as well; kill another unit and look:

  export ALLOT_SERVER=127.0.0.1:$PORT ALLOT_ZOOKEEPER=127.0.0.1:$zookeeper_port
  $allot unit list
  $allot conference get 4930101

So are the book of accounts and the units of compaction:

  $allot book get {allot}:accounts
  $allot task history
END
}

check_what_is_needed
# The programs take longest to build; the server is used meanwhile, so the module is built first, and the programs with
# what that leaves of the processors. The two profiles have folders of their own, so the two builds do not wait for each other.
programs=()
[ -n "${ALLOT_ALLOTD:-}" ] || programs+=(-p allotd)
[ -n "${ALLOT_CLI:-}" ] || programs+=(-p allot-cli)
[ ${#programs[@]} -eq 0 ] || { build daemon 15 "${programs[@]}" & others[build]=$!; }
[ -n "${ALLOT_MODULE:-}" ] || build release 0 -p allot-module
module=$(realpath "${ALLOT_MODULE:-$(built release liballot.so)}")
start_server
first_show
if [ -n "${others[build]:-}" ]; then
    step "allotd and allot are being built"
    wait "${others[build]}" || die "allotd and allot were not built"
    unset 'others[build]'
fi
allotd=$(realpath "${ALLOT_ALLOTD:-$(built daemon allotd)}")
allot=$(realpath "${ALLOT_CLI:-$(built daemon allot)}")
console
if [ -n "$PLAN" ]; then own_plan; else
    examples
    numbers
    conferences
    accounts
    compaction
fi
if [ "${RUN_ONCE:-}" = 1 ] || [ "${CI:-}" = true ]; then
    step "done"
    exit 0
fi
hint
wait "$pid" || true
die "redis-server has ended; its log is .run/redis-$PORT.log"
