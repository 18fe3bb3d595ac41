#!/usr/bin/env bash
# Fetches the libraries of the console's page from the npm registry, at fixed versions, into the console's assets, and
# axe-core into the tests, which check the accessibility of the pages with it. The result is committed: nothing is
# fetched when Allot is built, tested or installed. Run this script again only to change a version.
set -euo pipefail
tests=$(realpath "$(dirname "$0")/../tests/vendor")
cd "$(dirname "$0")/../orchestrator/console/assets/vendor"

PREACT=11.2.0
HTM=3.1.1
UPLOT=1.6.32
AXE=4.14.1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Unpacks a package into a folder of its name.
unpack() {
    mkdir -p "$work/$1"
    (cd "$work" && npm pack --silent "$1@$2" >/dev/null && tar xzf "$1-$2.tgz" -C "$1" --strip-components 1)
}

unpack preact "$PREACT"
unpack htm "$HTM"
unpack uplot "$UPLOT"
unpack axe-core "$AXE"

# A browser resolves no package names without an import map, which the page's CSP would refuse. The maps of the sources
# are not shipped.
ship() { sed -e 's#from"preact"#from"./preact.js"#g' -e '/^\/\/# sourceMappingURL=/d' "$1" >"$2"; }
ship "$work/preact/dist/preact.mjs" preact.js
ship "$work/preact/hooks/dist/hooks.mjs" hooks.js
ship "$work/htm/dist/htm.module.js" htm.js
{
    cat "$work/uplot/dist/uPlot.iife.min.js"
    printf '\nexport default uPlot;\n'
} >uplot.js
cp "$work/uplot/dist/uPlot.min.css" uplot.css
for name in preact htm uplot; do cp "$work/$name/LICENSE" "LICENSE-$name"; done
cp "$work/axe-core/axe.min.js" "$tests/axe.js"
cp "$work/axe-core/LICENSE" "$tests/LICENSE-axe"
