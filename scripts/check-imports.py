#!/usr/bin/env python3
"""Finds import circles inside each crate: between files, and between the modules of one folder.

    scripts/check-imports.py [--list] [FOLDER...]

An import is a path in a `use` line or in code that begins with `crate`, `super`, `self` or a child module. It leads to
the file that defines the name: a re-export is followed to its origin, so a module that only re-exports its children is
no part of a circle. Code under `#[cfg(test)]` does not count. `mod` lines make the tree and are no imports.

Each circle is printed once, as its shortest way round, and the exit status is 1. `--list` prints all files of each
circle as well. Without folders, the whole repository is checked.
"""

import argparse
import re
import sys
from collections import defaultdict, deque
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# Circles that are known, each as the set of its members as they are printed. To be empty.
ALLOWED: list[set[str]] = []

ITEM = re.compile(
    r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:default\s+|async\s+|const\s+|unsafe\s+|extern\s+(?:\"[^\"]*\"\s+)?)*"
    r"(?:fn|struct|enum|union|trait|type|static|const|mod)\s+(?:mut\s+)?(\w+)",
    re.M,
)
MACRO = re.compile(r"^\s*macro_rules!\s*(\w+)", re.M)
MOD = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", re.M)
USE = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.M)
PATH = re.compile(r"(?<![\w:])((?:crate|self|super)(?:::\w+)+)")
# A visibility names an ancestor; it imports nothing.
VISIBILITY = re.compile(r"\bpub\(in [\w:]+\)")


def without_text(source):
    """The source with comments and the contents of literals blanked; lines stay where they are."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\[^\n]{1,8}?|[^\\\'\n])\'', re.S
    )
    return VISIBILITY.sub("pub", token.sub(lambda found: "\n" * found[0].count("\n") or " ", source))


def without_tests(source):
    """The source without items under `#[cfg(test)]`."""
    while found := re.search(r"#\[cfg\((?:all\()?test\b[^\]]*\]", source):
        end, depth = found.end(), 0
        while end < len(source):
            character = source[end]
            depth += (character in "{([") - (character in "})]")
            end += 1
            if depth == 0 and character in ";}":
                break
        gone = source[found.start() : end]
        source = source[: found.start()] + "\n" * gone.count("\n") + source[end:]
    return source


def imports(tree, prefix=()):
    """The paths of a `use` tree with the names that they are bound to: (path, name), `*` for a glob."""
    tree = tree.strip()
    if "{" in tree:
        head, rest = tree.split("{", 1)
        prefix = prefix + tuple(part.strip() for part in head.split("::") if part.strip())
        depth, start, rest = 0, 0, rest.rsplit("}", 1)[0]
        for at, character in enumerate(rest + ","):
            depth += (character == "{") - (character == "}")
            if character == "," and depth == 0:
                if rest[start:at].strip():
                    yield from imports(rest[start:at], prefix)
                start = at + 1
        return
    path, _, alias = re.sub(r"\s+", " ", tree).partition(" as ")
    path = prefix + tuple(part.strip() for part in path.split("::") if part.strip())
    if path[-1] == "self":
        path = path[:-1]
    yield path, alias.strip() or path[-1]


class Module:
    """A file of a crate."""

    def __init__(self, path, name):
        self.path, self.name = path, name
        source = path.read_text()
        self.source = without_tests(without_text(source))
        self.children = {child: None for child in MOD.findall(self.source)}
        self.items = (set(ITEM.findall(self.source)) | set(MACRO.findall(self.source))) - set(self.children)
        self.uses = []
        for found in USE.finditer(self.source):
            line = self.source.count("\n", 0, found.start(1)) + 1
            self.uses += [(path, name, line) for path, name in imports(found[1])]
        self.body = USE.sub(lambda found: "\n" * found[0].count("\n"), self.source)


class Crate:
    """The files that a root declares, and who imports what from whom."""

    def __init__(self, root):
        self.modules = {}
        self.read(root, ())
        self.edges = defaultdict(dict)
        for module in self.modules.values():
            self.link(module)

    def read(self, path, name):
        module = self.modules[name] = Module(path, name)
        is_root = not name or path.name == "mod.rs"
        folder = path.parent if is_root else path.with_suffix("")
        for child in module.children:
            for candidate in (folder / f"{child}.rs", folder / child / "mod.rs"):
                if candidate.is_file():
                    self.read(candidate, name + (child,))

    def resolve(self, module, path, seen=()):
        """The module that defines a path, as seen from a module; nothing for another crate's."""
        here, path = module.name, list(path)
        if path and path[0] == "crate":
            here, path = (), path[1:]
        elif path and path[0] in ("self", "super"):
            while path and path[0] in ("self", "super"):
                here = here[:-1] if path.pop(0) == "super" else here
        elif not path or path[0] not in module.children:
            return None
        if here not in self.modules:
            return None
        return self.descend(self.modules[here], path, seen)

    def descend(self, module, path, seen):
        if (module.name, tuple(path)) in seen:
            return module
        seen = (*seen, (module.name, tuple(path)))
        if not path or path[0] == "*":
            return module
        first, rest = path[0], path[1:]
        child = self.modules.get(module.name + (first,))
        if child:
            return self.descend(child, rest, seen)
        if first in module.items:
            return module
        for used, name, _ in module.uses:
            if name == first:
                return self.resolve(module, (*used, *rest), seen)
        for used, name, _ in module.uses:
            if name == "*":
                origin = self.resolve(module, used[:-1], seen)
                if origin and (first in origin.items or first in origin.children):
                    return self.descend(origin, path, seen)
        return module

    def add(self, module, path, line):
        target = self.resolve(module, path)
        if target and target is not module:
            self.edges[module.name].setdefault(target.name, (line, "::".join(path)))

    def link(self, module):
        for path, name, line in module.uses:
            inside = [f"{name}::{member}" for member in re.findall(rf"(?<![\w:]){re.escape(name)}::(\w+)", module.body)]
            whole = self.module_of(module, path)
            if whole and inside and name != "*":
                # A module that is imported by its name: what of it is used decides.
                for member in dict.fromkeys(inside):
                    self.add(module, (*path, member.split("::")[1]), line)
            elif not (whole and self.is_child(module, whole) and not inside):
                self.add(module, path, line)
        for found in PATH.finditer(module.body):
            line = module.body.count("\n", 0, found.start()) + 1
            self.add(module, tuple(found[1].split("::")), line)
        for child in module.children:
            for found in re.finditer(rf"(?<![\w:]){child}((?:::\w+)+)", module.body):
                line = module.body.count("\n", 0, found.start()) + 1
                self.add(module, (child, *found[1].strip(":").split("::")), line)

    def module_of(self, module, path):
        """The module that a path names itself, if it names one."""
        target = self.resolve(module, path)
        return target if target and target.name and target.name[-1] == path[-1] else None

    @staticmethod
    def is_child(module, other):
        return other.name[: len(module.name)] == module.name and len(other.name) == len(module.name) + 1

    def is_reexport_only(self, name):
        return not self.modules[name].items


def circles(edges):
    """The strongly connected components of more than one node (Tarjan)."""
    index, low, stack, found, counter = {}, {}, [], [], 0
    nodes = sorted(set(edges) | {target for targets in edges.values() for target in targets})
    for start in nodes:
        if start in index:
            continue
        work = [(start, iter(sorted(edges.get(start, ()))))]
        index[start] = low[start] = counter
        counter += 1
        stack.append(start)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = counter
                    counter += 1
                    stack.append(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while not members or members[-1] != node:
                        members.append(stack.pop())
                    if len(members) > 1:
                        found.append(set(members))
    return found


def shortest_way_round(edges, members):
    best = None
    for start in sorted(members):
        before, queue = {start: None}, deque([start])
        while queue and (best is None or len(before) >= 0):
            node = queue.popleft()
            if start in edges.get(node, ()):
                way = [node]
                while before[way[-1]] is not None:
                    way.append(before[way[-1]])
                way.reverse()
                if best is None or len(way) < len(best):
                    best = way
                break
            for target in sorted(edges.get(node, ())):
                if target in members and target not in before:
                    before[target] = node
                    queue.append(target)
    return best


def sibling_edges(edges):
    """Imports between the modules of one folder, for each folder: {folder: {module: {module: why}}}."""
    lifted = defaultdict(lambda: defaultdict(dict))
    for origin, targets in edges.items():
        for target, why in targets.items():
            common = 0
            while common < min(len(origin), len(target)) and origin[common] == target[common]:
                common += 1
            if common < len(origin) and common < len(target):
                one, other = origin[: common + 1], target[: common + 1]
                lifted[origin[:common]][one].setdefault(other, (origin, *why))
    return lifted


def roots(folder):
    for manifest in sorted(folder.rglob("Cargo.toml")):
        if "target" in manifest.relative_to(folder).parts:
            continue
        base = manifest.parent
        patterns = ("src/lib.rs", "src/main.rs", "src/bin/*.rs", "src/bin/*/main.rs")
        patterns += tuple(f"{kind}/{name}" for kind in ("tests", "benches", "examples") for name in ("*.rs", "*/main.rs"))
        for pattern in patterns:
            yield from sorted(base.glob(pattern))


def main():
    parser = argparse.ArgumentParser(description="Finds import circles inside each crate.")
    parser.add_argument("--list", action="store_true", help="print all members of each circle")
    parser.add_argument("folders", nargs="*", type=Path, default=[REPOSITORY], metavar="FOLDER")
    options = parser.parse_args()
    count = 0

    def report(kind, members, way, describe):
        nonlocal count
        if {str(member) for member in members} in ALLOWED:
            return
        count += 1
        print(f"circle of {len(members)} {kind}:")
        for step, node in enumerate(way):
            print(f"  {describe(node, way[(step + 1) % len(way)])}")
        if options.list:
            print("  all:", " ".join(sorted(str(member) for member in members)))

    def shown(path):
        return path.relative_to(REPOSITORY) if path.is_relative_to(REPOSITORY) else path

    for root in dict.fromkeys(root.resolve() for folder in options.folders for root in roots(folder)):
        crate = Crate(root)
        path_of = {name: shown(module.path) for name, module in crate.modules.items()}

        def imported(origin, target):
            line, path = crate.edges[origin][target]
            return f"{path_of[origin]}:{line} imports {path} from {path_of[target]}"

        in_files = circles(crate.edges)
        for members in in_files:
            way = shortest_way_round(crate.edges, members)
            report("files", {path_of[member] for member in members}, way, imported)
        for folder, edges in sorted(sibling_edges(crate.edges).items()):
            for members in circles(edges):
                if any(members <= whole for whole in in_files):
                    continue
                way = shortest_way_round(edges, members)

                def between(one, other, edges=edges):
                    origin, line, path = edges[one][other]
                    return f"{'::'.join(one)} to {'::'.join(other)}: {path_of[origin]}:{line} imports {path}"

                report(f"modules in {shown(root.parent)}/{'/'.join(folder)}", members, way, between)
    if count:
        print(f"{count} import circles")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
