#!/usr/bin/env bash
# The second part of `make package-test`: builds the images of packaging/Containerfile on a clean Debian, and uses what
# packaging/compose.yaml starts.
# Needs root: images and containers are in a temporary folder, and the containers run in a network of their own, so
# nothing of this machine is changed and no port of it is used.
#
# Two parts of the files are not tested, because no image of a registry is used. The images are built from the packages
# of target/packages/ and not by the stage `build`. The ZooKeeper servers are Debian's, in an image that understands the
# variables of the public image.
#
#   OUTPUT=FOLDER    the packages are here
#   SUITE=NAME       another release of Debian than this machine's
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/checks.sh

OUTPUT=$(realpath "${OUTPUT:-target/packages}")
VERSION=$(sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml | head -n 1)
ARCHITECTURE=$(dpkg --print-architecture)
CLASSES=${ALLOT_ZOOKEEPER_CLASSPATH:-/usr/share/java/zookeeper.jar}

# Ends the test on a machine that cannot run containers, such as some containers themselves.
leave_out() {
    printf '\nThe images and the compose file are not tested: %s\n' "$1"
    exit 0
}

show_logs() {
    local container
    for container in $(containers podman ps --all --format '{{.Names}}'); do
        echo "-- $container"
        containers podman logs --tail 10 "$container"
    done
}

# Runs a command in the network of the containers.
containers() { nsenter --target "$holder" --net --mount --wd=. "$@" </dev/null; }
compose() { containers podman-compose -f packaging/compose.yaml "$@"; }
in_service() { containers podman exec "packaging_${1}_1" "${@:2}"; }
redis() { in_service redis redis-cli -e "$@"; }
allot() { in_service scheduler-a allot "$@"; }

server_answers() { [ "$(redis PING 2>/dev/null)" = PONG ]; }
is_healthy() { containers podman healthcheck run "packaging_${1}_1" >/dev/null 2>&1; }
two_units() { [ "$(allot unit list 2>/dev/null | grep -c ' up ')" = 2 ]; }
is_open() { allot conference list --state open 2>/dev/null | grep 4930100 >"$work/open"; }
is_open_on() { is_open && grep -q "$1" "$work/open"; }

# Images and containers in a temporary folder. Containers get no control groups, and no more files and processes than
# any user may have: a machine of a continuous integration often grants neither.
configure() {
    printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/images" "$work/run" \
        >"$work/storage.conf"
    cat >"$work/containers.conf" <<-END
		[containers]
		cgroups = "disabled"
		default_ulimits = ["nofile=1024:1024", "nproc=32768:32768"]
		[engine]
		cgroup_manager = "cgroupfs"
		runtime = "crun"
		events_logger = "file"
		[network]
		network_backend = "netavark"
		network_config_dir = "$work/networks"
	END
    export CONTAINERS_STORAGE_CONF=$work/storage.conf CONTAINERS_CONF=$work/containers.conf
    mkdir "$work/networks"
}

make_base() {
    step "a clean image of Debian $(suite)"
    mmdebstrap --quiet --mode=root --variant=minbase "$(suite)" "$work/base.tar" >"$work/mmdebstrap.log" 2>&1 ||
        die "mmdebstrap failed: $(tail -n 5 "$work/mmdebstrap.log")"
    podman import --quiet "$work/base.tar" localhost/debian >"$work/import" 2>&1 ||
        leave_out "podman stores no image in a folder here: $(tail -n 1 "$work/import")"
    rm "$work/base.tar"
}

# Without an isolation of their own, the steps of a build can use the network of this machine, for apt-get.
build() {
    local name=$1 context=$2
    podman build --quiet --isolation chroot --network host --format docker --tag "$name" "${@:3}" "$context" \
        >"$work/build" 2>&1 || die "the image $name cannot be built: $(tail -n 20 "$work/build")"
}

build_images() {
    step "the images"
    local target name
    mkdir -p "$work/packages/packages"
    cp "$OUTPUT"/{allot-redis-module,allotd,allot}_"${VERSION}_$ARCHITECTURE.deb" "$work/packages/packages/"
    printf 'FROM scratch\nCOPY packages /packages\n' >"$work/packages/Containerfile"
    build localhost/packages "$work/packages"
    for target in redis allotd; do
        name=localhost/allot-redis
        [ $target = redis ] || name=localhost/allotd
        build $name . --file packaging/Containerfile --target $target \
            --build-arg BASE=localhost/debian --build-arg PACKAGES=localhost/packages
        seen "the image $name, $(($(podman image inspect --format '{{.Size}}' $name) / 1048576)) MiB with Debian"
    done
}

# An image like the public one of ZooKeeper, with the Java and the ZooKeeper of this machine.
build_zookeeper() {
    local java=${JAVA_HOME:-} folder=$work/zookeeper jar
    [ -n "$java" ] || java=$(dirname "$(dirname "$(realpath "$(command -v java)")")")
    mkdir -p "$folder/java" "$folder/classes"
    tar -C "$java" --dereference --exclude=src.zip -c bin conf lib | tar -C "$folder/java" -x
    if [ "$CLASSES" = /usr/share/java/zookeeper.jar ]; then cp -L /usr/share/java/*.jar "$folder/classes/"
    else for jar in $(tr : ' ' <<<"$CLASSES"); do cp -L $jar "$folder/classes/"; done
    fi
    cat >"$folder/start" <<-'END'
		#!/bin/bash
		set -e
		echo "$ZOO_MY_ID" >/data/myid
		printf '%s\n' dataDir=/data tickTime=2000 initLimit=10 syncLimit=5 admin.enableServer=false $ZOO_SERVERS \
		    >/data/zoo.cfg
		exec /java/bin/java -cp '/classes/*' org.apache.zookeeper.server.quorum.QuorumPeerMain /data/zoo.cfg
	END
    chmod 755 "$folder/start"
    printf '%s\n' 'FROM localhost/debian' 'RUN mkdir /data' 'COPY java /java' 'COPY classes /classes' \
        'COPY start /start' 'ENTRYPOINT ["/start"]' >"$folder/Containerfile"
    build docker.io/library/zookeeper:3.9 "$folder"
    rm -rf "$folder"
}

make_network() {
    unshare --net --mount sh -c 'ip link set lo up && { umount -R /sys/fs/cgroup || true; } &&
        mount -t cgroup2 none /sys/fs/cgroup && echo ready && exec sleep 3600' >"$work/holder" 2>&1 &
    holder=$!
    for _ in $(seq 100); do
        grep -qx ready "$work/holder" && break
        kill -0 "$holder" 2>/dev/null || break
        sleep 0.1
    done
    grep -qx ready "$work/holder" || leave_out "no network for containers: $(tail -n 1 "$work/holder")"
    containers sh -c 'podman network create probe && podman run --rm --network probe localhost/debian true' \
        >"$work/probe" 2>&1 || leave_out "podman runs no container here: $(tail -n 1 "$work/probe")"
    containers podman network rm probe >/dev/null
    seen "a container that runs"
}

use_containers() {
    step "packaging/compose.yaml"
    local service victim=unit-a survivor=unit-b
    compose up --detach --no-build >"$work/up" 2>&1 || die "the containers do not start: $(tail -n 20 "$work/up")"
    until_true "Redis with the module" server_answers
    for service in redis scheduler-a scheduler-b unit-a unit-b; do
        until_true "$service is healthy" is_healthy $service
        [ "$(in_service $service id -u)" != 0 ] || die "$service runs as root"
    done
    seen "no container of Allot runs as root"
    redis SEAT.CREATE show:1 '{"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}' >/dev/null
    redis SEAT.HOLD show:1 ann 2 TTL 600000 TOKEN ann-1 >"$work/hold"
    expect "a seat is held" a-1-1 "$(sed -n 6p "$work/hold")"
    expect "Redis on the port of the host" 2 "$(containers redis-cli -e SEAT.CONFIRM show:1 ann-1 USER ann)"
    redis CONF.REALM '{allot}:conf' LICENCES 10 >/dev/null
    until_true "two media units" two_units
    allot conference create 4930100 --end 1h >/dev/null
    until_true "an open conference" is_open
    if is_open_on unit-b; then victim=unit-b survivor=unit-a; fi
    containers podman rm --force --time 0 "packaging_${victim}_1" >"$work/remove" 2>&1
    until_true "the conference on the other unit" is_open_on $survivor
    containers podman rm --force --time 0 packaging_redis_1 >"$work/remove" 2>&1
    compose up --detach --no-build >"$work/up" 2>&1 || die "the containers do not start again: $(tail -n 20 "$work/up")"
    until_true "Redis with the module in a new container" server_answers
    expect "the volume has kept the show" 1 "$(redis EXISTS show:1)"
    compose down >"$work/down" 2>&1 || die "the containers do not end: $(tail -n 20 "$work/down")"
    expect "no container is left" "" "$(containers podman ps --all --quiet)"
}

clean_up() {
    if [ -n "${holder:-}" ]; then
        containers podman rm --all --force --time 0 >/dev/null 2>&1 || true
        kill "$holder" 2>/dev/null || true
    fi
    { wait || true; } 2>/dev/null
    # Without a container that ran, podman leaves its folder mounted.
    umount -l "$work/images/overlay" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}

need_tools mmdebstrap podman podman-compose nsenter unshare ip java redis-cli
work=$(mktemp -d)
trap clean_up EXIT
configure
make_base
make_network
build_images
build_zookeeper
use_containers
printf '\n%s passed, 0 failed\n' "$passed"
