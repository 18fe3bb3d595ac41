#!/usr/bin/env bash
# Installs the missing packages that building and testing Allot needs. Uses apt-get on Debian and Ubuntu, with
# sudo unless the user is root; on other systems it only prints the missing packages.
#
#   --clients        install also the languages and client libraries of examples/clients/, and checkers of formats
#   --package        install also what make package needs
#   --package-test   install also what make package-test needs
#   --valgrind       install also what make bench-instructions needs, and a test of the module
#
# Never installed by this script: Rust itself (https://rustup.rs).
set -euo pipefail
cd "$(dirname "$0")/.."

RUST=1.88
REDIS=7.0.15
# The first release of Python's client that speaks RESP3.
PYTHON_REDIS=5
VENV=target/venv
NODE=target/node
PROMTOOL=target/promtool
clients=
package=
package_test=
valgrind=
for option in "$@"; do
    case $option in
        --clients) clients=1 ;;
        --package) package=1 ;;
        --package-test) package=1 package_test=1 ;;
        --valgrind) valgrind=1 ;;
        *) echo "deps: there is no option $option; see the first lines of $0" >&2; exit 1 ;;
    esac
done

die() {
    printf 'deps: %s\n' "$@" >&2
    exit 1
}

# Whether version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

has() { command -v "$1" >/dev/null 2>&1; }

has_redis_server() {
    local server=${ALLOT_REDIS_SERVER:-redis-server} version
    has "$server" || return 1
    version=$("$server" --version | sed -nE 's/.* v=([0-9.]+).*/\1/p')
    [ -n "$version" ] && at_least "$version" "$REDIS"
}

# The classes only: the tests start servers of their own, and Debian's package of that name starts none (that is
# zookeeperd).
has_zookeeper() { [ -n "${ALLOT_ZOOKEEPER_CLASSPATH:-}" ] || [ -e /usr/share/java/zookeeper.jar ]; }

has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib/llvm*/lib/libclang*.so*' >/dev/null ||
        compgen -G '/usr/lib/*/libclang*.so*' >/dev/null || compgen -G '/usr/lib*/libclang*.so*' >/dev/null ||
        compgen -G '/opt/homebrew/opt/llvm/lib/libclang.dylib' >/dev/null
}

python() {
    if [ -n "${ALLOT_PYTHON:-}" ]; then echo "$ALLOT_PYTHON"
    elif [ -x "$VENV/bin/python" ]; then echo "$VENV/bin/python"
    else echo python3
    fi
}

has_python_clients() {
    "$(python)" -c "import kazoo, redis, sys; sys.exit(int(redis.__version__.split('.')[0]) < $PYTHON_REDIS)" 2>/dev/null
}

check_rust() {
    has cargo || die "there is no cargo. Install Rust $RUST or newer from https://rustup.rs, then try again."
    local version
    version=$(cargo --version | cut -d ' ' -f 2)
    at_least "$version" "$RUST" || die "cargo is $version; Allot needs $RUST or newer: rustup update"
    if has rustup && ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
        echo "deps: rustup component add rustfmt clippy"
        rustup component add rustfmt clippy
    fi
}

has_node_module() { NODE_PATH=${NODE_PATH:-$NODE/node_modules} node -e "require('$1')" 2>/dev/null; }

# What the programs of examples/clients/ need, in addition to the libraries of Python and Node.js.
missing_client_packages() {
    [ -n "$clients" ] || return 0
    has node || echo nodejs
    has npm || echo npm
    has go || echo golang-go
    GO111MODULE=off GOPATH=${GOPATH:-/usr/share/gocode} go list github.com/gomodule/redigo/redis >/dev/null 2>&1 ||
        echo golang-github-gomodule-redigo-dev
    GO111MODULE=off GOPATH=${GOPATH:-/usr/share/gocode} go list github.com/mna/redisc >/dev/null 2>&1 ||
        echo golang-github-mna-redisc-dev
    has php || echo php-cli
    php -r 'exit(extension_loaded("redis") ? 0 : 1);' 2>/dev/null || echo php-redis
    has ruby || echo ruby
    ruby -e 'require "redis"' 2>/dev/null || echo ruby-redis
    cc -E -include hiredis/hiredis.h -x c /dev/null >/dev/null 2>&1 || echo libhiredis-dev
}

# What builds the packages.
missing_packaging_packages() {
    [ -n "$package" ] || return 0
    has dpkg-deb || echo dpkg
    has dpkg-shlibdeps || echo dpkg-dev
    has strip || echo binutils
}

# What uses the packages in a root of their own, and in containers.
missing_packaging_test_packages() {
    [ -n "$package_test" ] || return 0
    has mmdebstrap || echo mmdebstrap
    has lintian || echo lintian
    has systemd-analyze || echo systemd
    has podman || echo podman
    has podman-compose || echo podman-compose
    has crun || echo crun
    # The network of containers, and their names in it.
    [ -x /usr/lib/podman/netavark ] || echo netavark
    [ -x /usr/lib/podman/aardvark-dns ] || echo aardvark-dns
    # Not in the PATH of every user.
    has iptables || [ -x /usr/sbin/iptables ] || echo iptables
    has ip || echo iproute2
    has pgrep || echo procps
}

# The packages whose programs are missing, by their names on Debian.
missing_packages() {
    missing_client_packages
    missing_packaging_packages
    missing_packaging_test_packages
    [ -z "$valgrind" ] || has valgrind || echo valgrind
    has_redis_server || echo redis-server
    has redis-cli || echo redis-tools
    has make || echo make
    has cc || echo build-essential
    has clang || echo clang
    has_libclang || echo libclang-dev
    has python3 || [ -n "${ALLOT_PYTHON:-}" ] || echo python3
    has_zookeeper || echo zookeeper
    # The tests of the console drive a browser.
    has chromium || echo chromium
    has chromedriver || echo chromium-driver
    # The tests of completion.
    has zsh || echo zsh
    has fish || echo fish
    has java || [ -x "${JAVA_HOME:-/nonexistent}/bin/java" ] || echo default-jre-headless
    # Only for a Python whose own clients are absent or too old; see below.
    if ! has_python_clients && ! python3 -c 'import ensurepip' 2>/dev/null; then echo python3-venv; fi
}

install_packages() {
    local missing sudo=()
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} -eq 0 ] && return
    has apt-get || die "missing: ${missing[*]} (names of Debian's packages)." \
        "This script knows apt-get only; install them with your system's package manager, then try again."
    if [ "$(id -u)" -ne 0 ]; then
        has sudo || die "missing: ${missing[*]}. As root: apt-get install ${missing[*]}"
        sudo=(sudo)
    fi
    echo "deps: installing ${missing[*]} by ${sudo[*]:+sudo }apt-get"
    "${sudo[@]}" apt-get update -q ||
        echo "deps: apt-get update failed; trying with the lists of packages that are there" >&2
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
        </dev/null || die "apt-get could not install ${missing[*]}; its messages above say why."
    mapfile -t missing < <(missing_packages)
    [ ${#missing[@]} -eq 0 ] || die "apt-get is done, and this is still missing or too old: ${missing[*]}" \
        "Needed are Redis $REDIS or newer, libclang with its headers, ZooKeeper and Java. Ones that are elsewhere" \
        "are named by ALLOT_REDIS_SERVER=/path/to/redis-server, LIBCLANG_PATH=/folder/of/libclang," \
        "ALLOT_ZOOKEEPER_CLASSPATH='/opt/zookeeper/lib/*' and JAVA_HOME=/folder/of/java."
}

# Debian 12's python3-redis is 4.3 and knows RESP2 only, so a new enough one goes into a folder of our own.
install_python_clients() {
    has_python_clients && return
    [ -z "${ALLOT_PYTHON:-}" ] ||
        die "ALLOT_PYTHON=$ALLOT_PYTHON lacks redis $PYTHON_REDIS or newer, or kazoo:" \
            "$ALLOT_PYTHON -m pip install 'redis>=$PYTHON_REDIS' kazoo"
    echo "deps: Python's redis $PYTHON_REDIS or newer and kazoo into $VENV"
    mkdir -p target
    python3 -m venv --clear "$VENV" && "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check \
        "redis>=$PYTHON_REDIS" kazoo </dev/null ||
        die "Python's redis and kazoo could not be installed into $VENV." \
            "Where there is no way to pypi.org, install them by hand and name that Python: ALLOT_PYTHON=/path/to/python3"
}

# The tests check alert rules with Prometheus' own tool. Debian has it in the package of the server, which would be
# started: only the tool is taken out.
install_promtool() {
    [ -n "$clients" ] && [ ! -x "$PROMTOOL" ] && has apt-get && has dpkg-deb || return 0
    local folder
    folder=$(mktemp -d)
    echo "deps: promtool into $PROMTOOL"
    mkdir -p target
    if (cd "$folder" && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb .) >"$folder/log" 2>&1; then
        mv "$folder/usr/bin/promtool" "$PROMTOOL"
    else
        echo "deps: promtool could not be had; the alert rules are not checked: $(tail -n 1 "$folder/log")" >&2
    fi
    rm -rf "$folder"
}

# The client libraries of Node.js, and what checks the console's page and its API.
install_node_modules() {
    [ -n "$clients" ] || return 0
    local wanted=() version=6 node_version
    node_version=$(node --version)
    # Debian 12 has Node.js 18.
    at_least "${node_version#v}" 20 || version=5
    has_node_module ioredis || wanted+=("ioredis@$version")
    has_node_module redis || wanted+=(redis@5)
    [ -e "$NODE/node_modules/.bin/tsc" ] || wanted+=("typescript@5")
    ! at_least "${node_version#v}" 20.19 || [ -e "$NODE/node_modules/.bin/redocly" ] || wanted+=("@redocly/cli@2")
    [ ${#wanted[@]} -gt 0 ] || return 0
    echo "deps: ${wanted[*]} into $NODE"
    mkdir -p "$NODE"
    npm install --silent --no-audit --no-fund --prefix "$NODE" "${wanted[@]}" </dev/null ||
        die "${wanted[*]} could not be installed into $NODE. Where there is no way to the npm registry, install ioredis and redis by" \
            "hand and name their folder: NODE_PATH=/path/to/node_modules"
}

check_rust
install_packages
install_python_clients
install_promtool
install_node_modules
