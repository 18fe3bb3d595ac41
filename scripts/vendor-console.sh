#!/usr/bin/env bash
# Fetches the libraries of the console's page from the npm registry, at fixed versions, into the console's assets. The
# result is committed: nothing is fetched when Allot is built or installed. Run it again only to change a version.
set -euo pipefail
cd "$(dirname "$0")/../orchestrator/console/assets/vendor"

PREACT=11.2.0
HTM=3.1.1
UPLOT=1.6.32

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
