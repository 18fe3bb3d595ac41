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
. packaging/checks.sh

OUTPUT=$(realpath "${OUTPUT:-target/packages}")
VERSION=$(sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml | head -n 1)
ARCHITECTURE=$(dpkg --print-architecture)
SUITE=$(suite)
LIMIT=${LIMIT:-60}
MODULE=/usr/lib/redis/modules/liballot.so
# The services' exposure by `systemd-analyze security`, in tenths: 0 is none, 100 is a service without restrictions.
EXPOSURE=25

# What a process in the root needs: its own proc, and a network. Systemd needs more.
ENTER_ROOT='mount --make-rprivate / && mount --bind "$1" "$1" && cd "$1" && mount -t proc proc proc &&
    mount --rbind /dev dev && ip link set lo up'
FOR_SYSTEMD='mount -t sysfs -o ro sysfs sys && mount -t cgroup2 none sys/fs/cgroup && mount -t tmpfs tmpfs run'

# Whether systemd runs in the root, and the namespaces in which it or the servers run.
systemd=
namespaces=()
declare -A pids=()

show_logs() { tail -n 20 "$root"/var/log/redis/redis-server.log "$work"/*.log; }

# Runs a command in the root, in the network and among the processes of the servers.
in_root() { nsenter --target "$holder" "${namespaces[@]}" --root --wd=/ "$@"; }
redis() { in_root redis-cli -e "$@"; }
# apt-get needs the network of this machine.
apt() { chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" </dev/null; }
package() { echo "/packages/${1}_$VERSION${2:-}_$ARCHITECTURE.deb"; }

# The command line of a service, of the unit that the package installed.
command_line() {
    local file=$1.service instance=
    [[ $1 != *@* ]] || file=${1%%@*}@.service instance=${1#*@}
    sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/$file" "$root/lib/systemd/system/$file" 2>/dev/null |
        head -n 1 | sed -e "s/%i/$instance/g" -e 's/--supervised systemd//'
}

# Starts a service with some environment variables: by systemd, or its command line as its user.
start() {
    local service=$1 user=$2
    local -a line
    shift 2
    if [ -n "$systemd" ]; then
        # A drop-in file, as an administrator writes it.
        mkdir -p "$root/etc/systemd/system/$service.service.d"
        printf '[Service]\n' >"$root/etc/systemd/system/$service.service.d/test.conf"
        [ $# -eq 0 ] || printf 'Environment=%s\n' "$@" >>"$root/etc/systemd/system/$service.service.d/test.conf"
        in_root systemctl daemon-reload
        in_root systemctl start "$service" || die "systemd did not start $service: $(in_root journalctl -n 20 -u "$service")"
        return
    fi
    read -ra line <<<"$(command_line "$service")"
    # Not by in_root, whose process would be the shell's and not the service's.
    nsenter --target "$holder" "${namespaces[@]}" --root --wd=/ chroot --userspec="$user:$user" / env "$@" "${line[@]}" \
        >>"$work/$service.log" 2>&1 </dev/null &
    pids[$service]=$!
}

# Ends a service by a signal to its processes.
end() {
    if [ -n "$systemd" ]; then
        [ "$2" = TERM ] || in_root systemctl kill --signal="$2" "$1"
        in_root systemctl stop "$1"
        return
    fi
    kill "-$2" "${pids[$1]}"
    { wait "${pids[$1]}" || true; } 2>/dev/null
    unset "pids[$1]"
}

server_answers() { [ "$(in_root redis-cli PING 2>/dev/null)" = PONG ]; }
units_are() { [ "$(in_root allot unit list 2>/dev/null | grep -c ' up ')" = "$1" ]; }
# Whether the conference is open on a unit, by the unit's name.
is_open_on() { in_root allot conference list --state open 2>/dev/null | grep -Eq "4930100 .* $1( |$)"; }
is_open() { in_root allot conference list --state open 2>/dev/null | grep -q 4930100; }

install_and_hold() {
    step "the time from a clean root to the first hold"
    local began=$EPOCHREALTIME took
    apt update >"$work/apt.log" 2>&1 || die "apt-get update failed: $(tail -n 5 "$work/apt.log")"
    apt install --no-install-recommends "$(package allot-redis-module)" "$(package allotd)" "$(package allot)" >>"$work/apt.log" 2>&1 ||
        die "the packages cannot be installed: $(tail -n 20 "$work/apt.log")"
    echo "loadmodule $MODULE" >>"$root/etc/redis/redis.conf"
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
    start redis-server redis
    until_true "Redis answers" server_answers
}

restart_redis() {
    end redis-server TERM
    start_redis
}

# A second server, whose configuration is like the one that the documentation tells to write.
start_second() {
    in_root install -d -o redis -g redis /var/lib/redis/second
    in_root chroot --userspec=redis:redis / redis-server /etc/redis/second.conf >"$work/second.log" 2>&1 ||
        die "the second server does not start: $(cat "$work/second.log")"
    until_true "the second server" second_answers
}

stop_second() {
    second SHUTDOWN >"$work/second.log" 2>&1 || true
    until_true "the second server has ended" second_is_gone
}

second() { in_root redis-cli -p 6380 "$@"; }
second_answers() { [ "$(second PING 2>/dev/null)" = PONG ]; }
second_is_gone() { ! second PING >/dev/null 2>&1; }
second_is() { [ "$(second ROLE 2>/dev/null | head -n 1)" = "$1" ]; }
first_is() { [ "$(redis ROLE 2>/dev/null | head -n 1)" = "$1" ]; }
second_is_in_step() { second INFO replication | grep -q '^master_link_status:up'; }
sentinel() { in_root redis-cli -p 26379 "$@"; }
# It refuses with NOGOODSLAVE until it has connected to the replica that it has been told of.
sentinel_begins_failover() { [ "$(sentinel SENTINEL FAILOVER main 2>/dev/null)" = OK ]; }
sentinel_knows_both() { sentinel SENTINEL REPLICAS main 2>/dev/null | grep -q '^6380$'; }

# Redis writes the modules that it has loaded into its configuration file, when it is told to, and Sentinel tells all
# servers at each failover.
rewrite_and_fail_over() {
    step "CONFIG REWRITE and a failover by Sentinel"
    redis CONFIG REWRITE >/dev/null
    redis CONFIG REWRITE >/dev/null
    restart_redis
    printf '%s\n' "port 6380" "daemonize yes" "dir /var/lib/redis/second" "logfile /var/lib/redis/second/log" \
        "loadmodule $MODULE" "replicaof 127.0.0.1 6379" >"$root/etc/redis/second.conf"
    printf '%s\n' "port 26379" "daemonize yes" "dir /tmp" "sentinel monitor main 127.0.0.1 6379 1" \
        >"$root/etc/redis/sentinel.conf"
    in_root chown redis:redis /etc/redis/second.conf /etc/redis/sentinel.conf
    start_second
    until_true "the replica is in step" second_is_in_step
    in_root chroot --userspec=redis:redis / redis-server /etc/redis/sentinel.conf --sentinel >"$work/sentinel.log" 2>&1
    until_true "Sentinel knows both servers" sentinel_knows_both
    until_true "Sentinel begins a failover" sentinel_begins_failover
    until_true "the second server is the master" second_is master
    until_true "the first server is its replica" first_is slave
    sentinel SHUTDOWN >/dev/null 2>&1 || true
    stop_second
    restart_redis
    start_second
    redis REPLICAOF NO ONE >/dev/null
    redis CONFIG REWRITE >/dev/null
    stop_second
    restart_redis
    expect "the show after the failovers" 1 "$(redis EXISTS show:1)"
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
    local victim survivor name
    redis CONF.REALM '{allot}:conf' LICENCES 10 >/dev/null
    # One role in a process of its own twice, and the service of several roles as the second media unit.
    start allotd@scheduler allot
    start allotd@media-unit allot ALLOT_NAME=a ALLOT_MEDIA_UNIT_HOST=127.0.0.1/a
    start allotd allot ALLOT_NAME=b ALLOT_MEDIA_UNIT_HOST=127.0.0.1/b ALLOT_ROLES=media-unit
    until_true "two media units" units_are 2
    in_root allot conference create 4930100 --end 1h >/dev/null
    until_true "an open conference" is_open
    [ -z "$systemd" ] || restrictions_are_in_force allotd@media-unit
    victim=allotd@media-unit survivor=allotd name=b
    if is_open_on b; then victim=allotd survivor=allotd@media-unit name=a; fi
    end $victim KILL
    until_true "the conference on the other unit" is_open_on $name
    end $survivor TERM
    end allotd@scheduler TERM
}

# systemd has applied the restrictions that the unit asks for: no new privileges, no capabilities, a filter of system
# calls, and a file system that the service cannot write.
restrictions_are_in_force() {
    local pid status
    pid=$(in_root systemctl show --property MainPID --value "$1")
    status=$(in_root sed -nE 's/^(NoNewPrivs|CapBnd|Seccomp):\s*//p' "/proc/$pid/status")
    expect "$1 has no capability and no unusual system call" "0000000000000000 1 2" "$(echo $status)"
    if in_root nsenter --target "$pid" --mount --root touch /etc/allot/written 2>/dev/null; then die "$1 can write to /etc"; fi
    in_root nsenter --target "$pid" --mount --root touch /var/lib/allot/written || die "$1 cannot write to /var/lib/allot"
    in_root rm /var/lib/allot/written
    seen "$1 can write to its own folder, and not to /etc"
}

upgrade_and_remove() {
    step "upgrade, removal, purge"
    local next="+upgrade"
    sed -i 's/^capacity = .*/capacity = 42/' "$root/etc/allot/allot.toml"
    apt install --no-install-recommends "$(package allot-redis-module $next)" "$(package allotd $next)" \
        "$(package allot $next)" >"$work/upgrade.log" 2>&1 || die "the upgrade failed: $(tail -n 20 "$work/upgrade.log")"
    expect "the version after the upgrade" "$VERSION$next" \
        "$(in_root dpkg-query -W -f '${Version}' allotd)"
    configuration_is_kept "after the upgrade"
    in_root allotd check-config /etc/allot/allot.toml >"$work/check" || die "the settings are refused: $(cat "$work/check")"
    seen "the new version accepts the settings"
    restart_redis
    expect "the hold after the upgrade and a restart" 2 "$(redis SEAT.CONFIRM show:1 ann-1 USER ann ORDER order-1)"
    # A server without the module cannot load its values.
    redis FLUSHALL >/dev/null
    apt remove allot-redis-module allotd allot >"$work/remove.log" 2>&1 ||
        die "removal failed: $(tail -n 20 "$work/remove.log")"
    [ ! -e "$root/usr/bin/allotd" ] && [ ! -e "$root/usr/bin/allot" ] || die "removal left a program"
    [ ! -e "$root/usr/lib/redis/modules/liballot.so" ] || die "removal left the module"
    configuration_is_kept "after removal"
    restart_redis
    apt purge allot-redis-module allotd allot >>"$work/remove.log" 2>&1 ||
        die "purge failed: $(tail -n 20 "$work/remove.log")"
    [ ! -e "$root/etc/allot" ] || die "purge left settings"
    seen "purge leaves no file"
    restart_redis
}

configuration_is_kept() {
    grep -q '^capacity = 42$' "$root/etc/allot/allot.toml" || die "allot.toml was not kept $1"
    seen "settings are kept $1"
}

check_packages() {
    step "the packages"
    local file page
    for file in "$OUTPUT"/{allot-redis-module,allotd,allot}_"${VERSION}_$ARCHITECTURE.deb"; do
        [ -e "$file" ] || die "there is no $file; make package builds it"
        printf '%s: %s KiB packed, %s KiB installed\n' "${file##*/}" "$(($(stat -c %s "$file") / 1024))" \
            "$(dpkg-deb -f "$file" Installed-Size)"
        lintian --no-cfg --fail-on error "$file" || die "lintian found errors in ${file##*/}"
        seen "lintian finds no error in ${file##*/}"
    done
    for page in man1/allotd-run.1.gz man1/allot.1.gz man1/allot-show-create.1.gz man7/allot-commands.7.gz; do
        [ -s "$root/usr/share/man/$page" ] || die "there is no man page $page"
    done
    seen "man pages"
    bash -c 'source "$1" && complete -p allot' - "$root/usr/share/bash-completion/completions/allot" >/dev/null ||
        die "bash does not know the completion"
    seen "completion for bash"
}

# The packages under a higher version, to upgrade to.
pack_next_version() {
    local package folder=$work/next
    for package in allot-redis-module allotd allot; do
        rm -rf "$folder"
        dpkg-deb -R "$root$(package $package)" "$folder"
        sed -i "s/^Version: .*/Version: $VERSION+upgrade/" "$folder/DEBIAN/control"
        dpkg-deb --root-owner-group -Zxz -z1 --build "$folder" "$root$(package $package +upgrade)" >/dev/null
    done
}

make_root() {
    step "a clean root of Debian $SUITE"
    if [ -n "${ROOT:-}" ]; then cp -a "$ROOT" "$root"; else
        mmdebstrap --quiet --mode=root --variant=minbase --include=systemd "$SUITE" "$root" >"$work/mmdebstrap.log" 2>&1 ||
            die "mmdebstrap failed: $(tail -n 5 "$work/mmdebstrap.log")"
    fi
    # No package of Debian starts a service: it would run in the network of this machine.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    mkdir "$root/packages"
    cp "$OUTPUT"/*_"$ARCHITECTURE.deb" "$root/packages/"
    pack_next_version
    if boot; then seen "systemd runs in the clean root"; else
        systemd= namespaces=(--net --mount)
        echo "systemd does not run in a folder on this machine ($(tail -n 1 "$work/holder")): the command lines of the" \
            "services are used instead, and their restrictions are checked but not in force"
        hold 'exec chroot . sleep 3600' "${namespaces[@]}" || die "no network: $(cat "$work/holder")"
    fi
}

# Makes namespaces, with a network of their own, and runs a command as their first process in the root. False if the
# command has not entered the root within ten seconds.
hold() {
    unshare "${@:2}" --fork --kill-child sh -c "$ENTER_ROOT && $1" - "$root" >"$work/holder" 2>&1 </dev/null &
    outer=$!
    for _ in $(seq 100); do
        holder=$(pgrep --parent "$outer") && [ "$(readlink "/proc/$holder/root")" = "$root" ] && return
        sleep 0.1
    done
    return 1
}

# Starts systemd in the root, as the first process of a process namespace. False if it cannot run here.
boot() {
    local state
    [ -x "$root/lib/systemd/systemd" ] || { echo "the root has no systemd" >"$work/holder"; return 1; }
    systemd=1 namespaces=(--net --mount --pid --ipc --uts --cgroup)
    # Redis's own service asks for a user namespace, which a container or a virtual machine may refuse.
    mkdir -p "$root/etc/systemd/system/redis-server.service.d"
    printf '[Service]\nPrivateUsers=no\nLimitNOFILE=\n' >"$root/etc/systemd/system/redis-server.service.d/machine.conf"
    hold "$FOR_SYSTEMD"' && exec chroot . env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --log-target=console --show-status=no' "${namespaces[@]}" || return 1
    for _ in $(seq 300); do
        state=$(in_root systemctl is-system-running 2>/dev/null) || true
        case $state in running | degraded) return 0 ;; esac
        kill -0 "$outer" 2>/dev/null || return 1
        sleep 0.1
    done
    kill -KILL "$outer"
    return 1
}

clean_up() {
    local name
    for name in "${!pids[@]}"; do kill -KILL "${pids[$name]}" 2>/dev/null || true; done
    [ -z "${outer:-}" ] || { kill -KILL "$outer" && wait "$outer"; } 2>/dev/null || true
    { wait || true; } 2>/dev/null
    rm -rf --one-file-system "$work"
}

need_tools mmdebstrap lintian systemd-analyze nsenter unshare ip pgrep
work=$(mktemp -d)
root=$(realpath "$work")/root
chmod 755 "$work"
trap clean_up EXIT
make_root
install_and_hold
check_packages
check_units
recover_a_conference
rewrite_and_fail_over
upgrade_and_remove
printf '\n%s passed, 0 failed\n' "$passed"
