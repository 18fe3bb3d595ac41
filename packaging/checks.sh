# What the tests of the packages and of the containers share; they source this file. A test defines `show_logs`.

passed=0

die() {
    printf '%s: %s\n' "$(basename "$0")" "$1" >&2
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

# Waits up to 60 seconds until a command succeeds.
until_true() {
    local what=$1 deadline=$((SECONDS + 60))
    shift
    while [ $SECONDS -lt $deadline ]; do
        "$@" && { seen "$what"; return; }
        sleep 0.1
    done
    show_logs >&2 || true
    die "waited in vain for $what"
}

# Needs root and some tools.
need_tools() {
    local tool
    [ "$(id -u)" -eq 0 ] || die "this needs root: sudo make package-test"
    for tool in "$@"; do
        command -v "$tool" >/dev/null || die "there is no $tool; scripts/deps.sh --package-test installs it"
    done
}

# The release of Debian in the clean roots.
suite() { echo "${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}"; }
