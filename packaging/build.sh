#!/usr/bin/env bash
# `make package`: builds the Debian packages allot-redis-module, allotd and allot into target/packages/.
#
#   VERSION=V                      another version than that of Cargo.toml
#   OUTPUT=FOLDER                  another folder than target/packages
#   ALLOT_MODULE, ALLOT_ALLOTD, ALLOT_CLI     pack these files instead of building
#   DEBFULLNAME, DEBEMAIL          the maintainer that the packages name
#
# Nothing is downloaded, except what cargo needs for a build. With the same sources and programs the packages have the
# same bytes: all times in them are that of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."

VERSION=${VERSION:-$(sed -nE 's/^version = "(.*)"/\1/p' Cargo.toml | head -n 1)}
OUTPUT=${OUTPUT:-target/packages}
MAINTAINER="${DEBFULLNAME:-Allot developers} <${DEBEMAIL:-allot@example.org}>"
ARCHITECTURE=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}
export SOURCE_DATE_EPOCH
server_pid=

die() {
    printf 'package: %s\n' "$@" >&2
    exit 1
}

stop() {
    [ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
    rm -rf "$work"
}

built() { realpath "${CARGO_TARGET_DIR:-target}/$1/$2"; }

find_programs() {
    local tool
    for tool in dpkg-deb dpkg-shlibdeps strip redis-server redis-cli python3; do
        command -v "$tool" >/dev/null || die "there is no $tool; scripts/deps.sh --package installs it"
    done
    [ -n "${ALLOT_ALLOTD:-}" ] || cargo build --profile daemon -p allotd
    [ -n "${ALLOT_CLI:-}" ] || cargo build --profile daemon -p allot-cli
    [ -n "${ALLOT_MODULE:-}" ] || cargo build --release -p allot-module
    module=$(realpath "${ALLOT_MODULE:-$(built release liballot.so)}")
    allotd=$(realpath "${ALLOT_ALLOTD:-$(built daemon allotd)}")
    allot=$(realpath "${ALLOT_CLI:-$(built daemon allot)}")
}

# Puts a program or library into a package, without the symbols that only a debugger needs.
install_stripped() {
    install -D -m "$1" "$2" "$3"
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "$3"
}

install_compressed() {
    install -D -m 644 "$1" "$2"
    gzip -9n "$2"
}

# What dpkg calls the libraries that a program needs.
libraries_of() {
    mkdir -p "$work/shlibdeps/debian"
    printf 'Source: allot\n\nPackage: allot\nArchitecture: any\n' >"$work/shlibdeps/debian/control"
    (cd "$work/shlibdeps" && dpkg-shlibdeps -O "$1" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

# The files of /usr/share/doc that each package needs.
install_documents() {
    local package=$1 documents=$work/$1/usr/share/doc/$1
    install -D -m 644 packaging/debian/copyright "$documents/copyright"
    printf 'allot (%s) stable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- %s  %s\n' \
        "$VERSION" "$MAINTAINER" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$work/changelog"
    install_compressed "$work/changelog" "$documents/changelog"
    install_compressed CHANGELOG.md "$documents/CHANGELOG.md"
}

# What lintian shall not report, with the reasons.
install_overrides() {
    local overrides=packaging/debian/$1.lintian-overrides
    [ ! -e "$overrides" ] || install -D -m 644 "$overrides" "$work/$1/usr/share/lintian/overrides/$1"
}

# Writes DEBIAN/control and packs the folder of a package.
pack() {
    local package=$1 folder=$work/$1 size file
    mkdir -p "$folder/DEBIAN"
    install_overrides "$package"
    size=$(du -k -s --apparent-size --exclude=DEBIAN "$folder" | cut -f 1)
    sed -e "s|@VERSION@|$VERSION|" -e "s|@ARCHITECTURE@|$ARCHITECTURE|" -e "s|@MAINTAINER@|$MAINTAINER|" \
        -e "s|@SIZE@|$size|" -e "s|@LIBRARIES@|$2|" "packaging/debian/$package.control" >"$folder/DEBIAN/control"
    [ ! -d "$folder/etc" ] || (cd "$folder" && find etc -type f -printf '/%p\n' | LC_ALL=C sort) >"$folder/DEBIAN/conffiles"
    for file in postinst prerm postrm; do
        [ ! -e "packaging/debian/$package.$file" ] ||
            install -m 755 "packaging/debian/$package.$file" "$folder/DEBIAN/$file"
    done
    (cd "$folder" && find . -type f ! -path './DEBIAN/*' ! -path './etc/*' -printf '%P\n' | LC_ALL=C sort |
        xargs md5sum) >"$folder/DEBIAN/md5sums"
    chmod 644 $(find "$folder/DEBIAN" -name control -o -name conffiles -o -name md5sums)
    find "$folder" -newermt "@$SOURCE_DATE_EPOCH" -print0 | xargs -0 -r touch -h -d "@$SOURCE_DATE_EPOCH"
    dpkg-deb --root-owner-group -Zxz --build "$folder" "$OUTPUT/${package}_${VERSION}_$ARCHITECTURE.deb"
}

# The documentation of the commands as a man page, from a server that has loaded the module.
commands_man() {
    local socket=$work/redis.sock
    redis-server --port 0 --unixsocket "$socket" --dir "$work" --save '' --daemonize no --loadmodule "$module" \
        >"$work/redis.log" 2>&1 </dev/null &
    server_pid=$!
    for _ in $(seq 100); do
        [ "$(redis-cli -s "$socket" PING 2>/dev/null)" = PONG ] && break
        kill -0 "$server_pid" 2>/dev/null || die "redis-server did not start: $(tail -n 5 "$work/redis.log")"
        sleep 0.1
    done
    redis-cli -s "$socket" -3 --json COMMAND DOCS >"$work/docs.json"
    packaging/commands-man.py "$VERSION" <"$work/docs.json" >"$1"
    kill "$server_pid"
    wait "$server_pid" || true
    server_pid=
}

package_module() {
    local package=allot-redis-module
    local folder=$work/$package
    # Redis loads no module that is not executable.
    install_stripped 755 "$module" "$folder/usr/lib/redis/modules/liballot.so"
    commands_man "$work/allot-commands.7"
    install_compressed "$work/allot-commands.7" "$folder/usr/share/man/man7/allot-commands.7"
    install_documents "$package"
    pack "$package" "$(libraries_of "$folder/usr/lib/redis/modules/liballot.so")"
}

# The man pages of a program and of its subcommands.
install_man_pages() {
    local page
    "$allot" __man "$work/man"
    for page in "$work/man/$2.1" "$work/man/$2"-*.1; do
        install_compressed "$page" "$1/usr/share/man/man1/${page##*/}"
    done
}

package_daemon() {
    local package=allotd
    local folder=$work/$package unit
    install_stripped 755 "$allotd" "$folder/usr/bin/allotd"
    install -D -m 644 examples/allot.toml "$folder/etc/allot/allot.toml"
    unit=$folder/usr/lib/systemd/system
    install -D -m 644 packaging/systemd/allotd.service "$unit/allotd.service"
    # The same service for the one role that its name says.
    sed -e '1s/.*/# One role in a process of its own: allotd@scheduler, allotd@media-unit and so on./' \
        -e 's/^Description=.*/Description=Allot daemon, role %i/' -e '/^ExecStart=/s/$/ --roles %i/' \
        packaging/systemd/allotd.service >"$work/template"
    install -D -m 644 "$work/template" "$unit/allotd@.service"
    for unit in allotd.service allotd@media-unit.service allotd@compaction.service; do
        install -D -m 644 packaging/systemd/programs.conf "$folder/usr/lib/systemd/system/$unit.d/programs.conf"
    done
    install_man_pages "$folder" allotd
    install -D -m 755 -t "$folder/usr/share/doc/allotd/examples/compaction" \
        $(find examples/compaction -maxdepth 1 -type f)
    install_documents "$package"
    pack "$package" "$(libraries_of "$folder/usr/bin/allotd")"
}

package_command_line() {
    local package=allot
    local folder=$work/$package
    install_stripped 755 "$allot" "$folder/usr/bin/allot"
    install_man_pages "$folder" allot
    mkdir -p "$folder"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
    "$allot" completion bash >"$folder/usr/share/bash-completion/completions/allot"
    "$allot" completion zsh >"$folder/usr/share/zsh/vendor-completions/_allot"
    "$allot" completion fish >"$folder/usr/share/fish/vendor_completions.d/allot.fish"
    install_compressed docs/command-line.md "$folder/usr/share/doc/allot/command-line.md"
    install_documents "$package"
    pack "$package" "$(libraries_of "$folder/usr/bin/allot")"
}

umask 022
work=$(mktemp -d)
trap stop EXIT
find_programs
mkdir -p "$OUTPUT"
package_module
package_daemon
package_command_line
ls -l "$OUTPUT"/*_"${VERSION}_$ARCHITECTURE.deb"
