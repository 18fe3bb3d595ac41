#!/usr/bin/env bash
# `make package-test`: installs the packages of target/packages/ in a clean root, uses them, upgrades and removes them.
# Needs root: mmdebstrap makes a Debian system in a temporary folder, and its servers run in a network of their own, so
# nothing of this machine is changed and no port of it is used.
#
#   OUTPUT=FOLDER    the packages are here
#   SUITE=NAME       another release of Debian than this machine's
#   ROOT=FOLDER      a clean root that exists; it is copied, which is quicker than making one
#   LIMIT=SECONDS    time limit from the clean root to the first hold; 60 without it
set -euo pipefail
cd "$(dirname "$0")/.."

OUTPUT=$(realpath "${OUTPUT:-target/packages}")
VERSION=$(sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml | head -n 1)
ARCHITECTURE=$(dpkg --print-architecture)
SUITE=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
LIMIT=${LIMIT:-60}
# The services' exposure by `systemd-analyze security`, in tenths: 0 is none, 100 is a service without restrictions.
EXPOSURE=25
passed=0

declare -A pids=()

die() {
    printf 'package-test: %s\n' "$@" >&2
    exit 1
}

step() { printf '\n== %s\n' "$*"; }

# Says that something was seen, and counts it.
seen() {
    passed=$((passed + 1))
    printf 'ok: %s\n' "$*"
}

expect() {
    local what=$1 wanted=$2 got=$3
    [ "$got" = "$wanted" ] || die "$what: wanted '$wanted', got '$got'"
    seen "$what"
}

# Waits up to 30 seconds until a command succeeds.
until_true() {
    local what=$1
    shift
    for _ in $(seq 300); do
        "$@" && { seen "$what"; return; }
        sleep 0.1
    done
    tail -n 20 "$root"/var/log/redis/redis-server.log "$work"/*.log >&2 || true
    die "waited in vain for $what"
}

# Runs a command in the root, in the network of the servers.
in_root() { nsenter --target "$holder" --net --mount chroot "$root" "$@"; }
redis() { in_root redis-cli -e "$@"; }
# apt-get needs the network of this machine.
apt() { chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" </dev/null; }
package() { echo "/packages/${1}_$VERSION${2:-}_$ARCHITECTURE.deb"; }

# The command line of a service, of the unit that the package installed.
command_line() {
    sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/$1" "$root/lib/systemd/system/$1" 2>/dev/null |
        head -n 1 | sed "s/%i/${2:-}/g"
}

# Starts a service's command line as its user. systemd itself cannot run in a root like this one.
start() {
    local name=$1 user=$2 line=$3
    local -a words
    read -ra words <<<"$line"
    nsenter --target "$holder" --net --mount chroot --userspec="$user:$user" "$root" "${words[@]}" "${@:4}" \
        >>"$work/$name.log" 2>&1 </dev/null &
    pids[$name]=$!
}

end() {
    kill "-$2" "${pids[$1]}"
    { wait "${pids[$1]}" || true; } 2>/dev/null
    unset "pids[$1]"
}

server_answers() { [ "$(in_root redis-cli PING 2>/dev/null)" = PONG ]; }
units_are() { [ "$(in_root allotd units 2>/dev/null | grep -c ' up ')" = "$1" ]; }
# Whether the conference is open on a unit, by the unit's name.
is_open_on() { in_root allotd conference list --state open 2>/dev/null | grep -q "4930100.*127.0.0.1/$1"; }
is_open() { in_root allotd conference list --state open 2>/dev/null | grep -q 4930100; }

install_and_hold() {
    step "the time from a clean root to the first hold"
    local began=$EPOCHREALTIME took
    apt update >"$work/apt.log" 2>&1 || die "apt-get update failed: $(tail -n 5 "$work/apt.log")"
    apt install --no-install-recommends "$(package allot-redis-module)" "$(package allotd)" >>"$work/apt.log" 2>&1 ||
        die "the packages cannot be installed: $(tail -n 20 "$work/apt.log")"
    echo 'include /etc/redis/allot.conf' >>"$root/etc/redis/redis.conf"
    start_redis
    redis SEAT.CREATE show:1 '{"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}' >/dev/null
    redis SEAT.HOLD show:1 ann 2 TTL 600000 TOKEN ann-1 >"$work/hold"
    took=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $began }")
    expect "a seat is held" "a-1-1" "$(sed -n 6p "$work/hold")"
    echo "from a clean root to the first hold: $took s, with the download of Redis by apt-get"
    awk "BEGIN { exit !($took < $LIMIT) }" || die "this took longer than $LIMIT s"
    seen "that took less than $LIMIT s"
}

start_redis() {
    in_root install -d -o redis -g redis /run/redis
    # By its service's command line. Without systemd nobody takes its report of readiness.
    start redis redis "$(command_line redis-server.service | sed 's/--supervised systemd//')"
    until_true "Redis with the module" server_answers
}

check_units() {
    step "the units of systemd"
    local unit output
    for unit in allotd.service allotd@.service; do
        [ -s "$root/usr/lib/systemd/system/$unit" ] || die "there is no $unit"
    done
    output=$(systemd-analyze verify --recursive-errors=no --man=no --root="$root" allotd.service \
        allotd@scheduler.service allotd@media-unit.service allotd@compaction.service 2>&1) ||
        die "systemd-analyze verify: $output"
    expect "systemd-analyze verify has nothing to say" "" "$output"
    for unit in allotd.service allotd@scheduler.service allotd@media-unit.service allotd@compaction.service; do
        systemd-analyze security --offline=yes --root="$root" --threshold="$EXPOSURE" --no-pager "$unit" \
            >"$work/security" 2>&1 || die "systemd-analyze security: $(tail -n 1 "$work/security")"
        seen "$(tail -n 1 "$work/security" | sed -E 's/^[^A-Za-z]*//')"
    done
}

recover_a_conference() {
    step "a conference survives its unit"
    local victim survivor
    redis CONF.REALM '{allot}:conf' LICENCES 10 >/dev/null
    start scheduler allot "$(command_line allotd@.service scheduler)" --name scheduler
    start a allot "$(command_line allotd@.service media-unit)" --name a --cmu-host 127.0.0.1/a
    start b allot "$(command_line allotd@.service media-unit)" --name b --cmu-host 127.0.0.1/b
    until_true "two media units" units_are 2
    in_root allotd conference create 4930100 --end 1h >/dev/null
    until_true "an open conference" is_open
    victim=a survivor=b
    if is_open_on b; then victim=b survivor=a; fi
    end "$victim" KILL
    until_true "the conference on the other unit" is_open_on "$survivor"
    end "$survivor" TERM
    end scheduler TERM
}

upgrade_and_remove() {
    step "upgrade, removal, purge"
    local next="+upgrade"
    sed -i 's/^capacity = .*/capacity = 42/' "$root/etc/allot/allot.toml"
    echo '# a line of the administrator' >>"$root/etc/redis/allot.conf"
    apt install --no-install-recommends "$(package allot-redis-module $next)" "$(package allotd $next)" \
        >"$work/upgrade.log" 2>&1 || die "the upgrade failed: $(tail -n 20 "$work/upgrade.log")"
    expect "the version after the upgrade" "$VERSION$next" \
        "$(in_root dpkg-query -W -f '${Version}' allotd)"
    configuration_is_kept "after the upgrade"
    in_root allotd config check /etc/allot/allot.toml >"$work/check" || die "the settings are refused: $(cat "$work/check")"
    seen "the new version accepts the settings"
    end redis TERM
    start_redis
    expect "the hold after the upgrade and a restart" 2 "$(redis SEAT.CONFIRM show:1 ann-1 USER ann ORDER order-1)"
    end redis TERM
    apt remove allot-redis-module allotd >"$work/remove.log" 2>&1 ||
        die "removal failed: $(tail -n 20 "$work/remove.log")"
    [ ! -e "$root/usr/bin/allotd" ] || die "removal left the program"
    [ ! -e "$root/usr/lib/redis/modules/liballot.so" ] || die "removal left the module"
    configuration_is_kept "after removal"
    apt purge allot-redis-module allotd >>"$work/remove.log" 2>&1 ||
        die "purge failed: $(tail -n 20 "$work/remove.log")"
    [ ! -e "$root/etc/allot" ] && [ ! -e "$root/etc/redis/allot.conf" ] || die "purge left settings"
    seen "purge leaves no file"
}

configuration_is_kept() {
    grep -q '^capacity = 42$' "$root/etc/allot/allot.toml" || die "allot.toml was not kept $1"
    grep -q administrator "$root/etc/redis/allot.conf" || die "allot.conf was not kept $1"
    seen "settings are kept $1"
}

check_packages() {
    step "the packages"
    local file page
    for file in "$OUTPUT"/{allot-redis-module,allotd}_"${VERSION}_$ARCHITECTURE.deb"; do
        [ -e "$file" ] || die "there is no $file; make package builds it"
        printf '%s: %s KiB packed, %s KiB installed\n' "${file##*/}" "$(($(stat -c %s "$file") / 1024))" \
            "$(dpkg-deb -f "$file" Installed-Size)"
        lintian --no-cfg --fail-on error "$file" || die "lintian found errors in ${file##*/}"
        seen "lintian finds no error in ${file##*/}"
    done
    for page in man1/allotd.1.gz man1/allotd-seats-load.1.gz man7/allot-commands.7.gz; do
        [ -s "$root/usr/share/man/$page" ] || die "there is no man page $page"
    done
    seen "man pages"
    bash -c 'source "$1" && complete -p allotd' - "$root/usr/share/bash-completion/completions/allotd" >/dev/null ||
        die "bash does not know the completion"
    seen "completion for bash"
}

# The packages under a higher version, to upgrade to.
pack_next_version() {
    local package folder=$work/next
    for package in allot-redis-module allotd; do
        rm -rf "$folder"
        dpkg-deb -R "$root$(package $package)" "$folder"
        sed -i "s/^Version: .*/Version: $VERSION+upgrade/" "$folder/DEBIAN/control"
        dpkg-deb --root-owner-group -Zxz -z1 --build "$folder" "$root$(package $package +upgrade)" >/dev/null
    done
}

make_root() {
    step "a clean root of Debian $SUITE"
    if [ -n "${ROOT:-}" ]; then cp -a "$ROOT" "$root"; else
        mmdebstrap --quiet --mode=root --variant=minbase "$SUITE" "$root" >"$work/mmdebstrap.log" 2>&1 ||
            die "mmdebstrap failed: $(tail -n 5 "$work/mmdebstrap.log")"
    fi
    # No package of Debian starts a service: it would run in the network of this machine.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    mkdir "$root/packages"
    cp "$OUTPUT"/*_"$ARCHITECTURE.deb" "$root/packages/"
    pack_next_version
    unshare --net --mount sh -c 'ip link set lo up && mount -t proc proc "$1" && echo ready && exec sleep 3600' - \
        "$root/proc" >"$work/holder" 2>&1 &
    holder=$!
    for _ in $(seq 100); do
        [ -s "$work/holder" ] && break
        sleep 0.1
    done
    expect "a network for the servers" ready "$(cat "$work/holder")"
}

clean_up() {
    local name
    for name in "${!pids[@]}"; do kill -KILL "${pids[$name]}" 2>/dev/null || true; done
    [ -z "${holder:-}" ] || kill "$holder" 2>/dev/null || true
    { wait || true; } 2>/dev/null
    rm -rf --one-file-system "$work"
}

[ "$(id -u)" -eq 0 ] || die "this needs root: sudo make package-test"
for tool in mmdebstrap lintian systemd-analyze nsenter unshare ip; do
    command -v "$tool" >/dev/null || die "there is no $tool; scripts/deps.sh --packages installs it"
done
work=$(mktemp -d)
root=$work/root
chmod 755 "$work"
trap clean_up EXIT
make_root
install_and_hold
check_packages
check_units
recover_a_conference
upgrade_and_remove
printf '\n%s passed, 0 failed\n' "$passed"
