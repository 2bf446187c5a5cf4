"""The modules of a Rust crate, and which takes what from which: read from `mod`, `use` and paths, without tests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = re.compile(
    r"""//[^\n]*|/\*(?:.|\n)*?\*/            # comments
    |b?r(?P<hashes>\#*)"(?:.|\n)*?"(?P=hashes)  # raw strings
    |[bc]?"(?:\\(?:.|\n)|[^"\\])*"           # strings
    |b?'(?:\\[^\n]+?|[^\\'\n])'              # characters
    |'?[A-Za-z_]\w*|::|\S                    # names and lifetimes, punctuation""",
    re.VERBOSE,
)
NOT_CODE = re.compile(r"//|/\*|[bc]?r?#*\"|b?'.*'$")
OPENING, CLOSING = set("([{"), set(")]}")
DEFINING = {"fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules"}
NAME = re.compile(r"[A-Za-z_]\w*$")


@dataclass
class Import:
    """One name that a `use` brings; `name` is `*` for all of a module."""

    name: str
    path: tuple[str, ...]
    public: bool = False


@dataclass
class Module:
    """A file of a crate.

    Attributes:
        path: Of the file.
        parent: None for the crate's root.
        children: Modules in files of their own, by name.
        defines: Names of its items.
        imports: What its `use` declarations bring.
        paths: Every other path of two segments or more, as segments.
        names: Every name outside of `use` declarations.
    """

    path: Path
    parent: Module | None
    children: dict[str, Module] = field(default_factory=dict)
    defines: set[str] = field(default_factory=set)
    imports: list[Import] = field(default_factory=list)
    paths: set[tuple[str, ...]] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def __hash__(self) -> int:
        return hash(self.path)


def crate(root: Path) -> list[Module]:
    """The modules of the crate whose `lib.rs` this is; tests are left out."""
    found = [_read(root, None)]
    for module in found:
        found += module.children.values()
    return found


def arrows(modules: list[Module]) -> dict[Module, dict[Module, set[str]]]:
    """For each module the modules whose items its own code names, with those names.

    An item belongs to the file that defines it, whatever path it was reached by. A `pub use` hands an item on: it counts
    only where the file's own code names that item too.
    """
    out: dict[Module, dict[Module, set[str]]] = {m: {} for m in modules}
    for module in modules:
        taken = [i.path for i in module.imports if not i.public or i.name in module.names]
        for path in [*taken, *module.paths]:
            home = _home(module, path)
            if home and home[0] is not module:
                out[module].setdefault(home[0], set()).add(home[1])
    return out


def _read(path: Path, parent: Module | None) -> Module:
    module = Module(path, parent)
    tokens = list(_code(list(_tokens(path.read_text()))))
    at = depth = 0
    while at < len(tokens):
        depth += (tokens[at] in OPENING) - (tokens[at] in CLOSING)
        if tokens[at] == "use":
            end = tokens.index(";", at)
            public = at > 0 and tokens[at - 1] in {"pub", ")"}
            module.imports += [replace(leaf, public=public) for leaf in _leaves(tokens[at + 1 : end])]
        elif name := _defined(tokens, at):
            end = tokens.index(name, at)
            if not depth:
                module.defines.add(name)
            if tokens[at] == "mod" and tokens[end + 1] == ";":
                module.children[name] = _read(_file(path, name), module)
        elif NAME.match(tokens[at]):
            end = at
            while tokens[end + 1 : end + 2] == ["::"] and NAME.match(tokens[end + 2]):
                end += 2
            module.names.add(tokens[at])
            if end > at:
                module.paths.add(tuple(tokens[at : end + 1 : 2]))
        else:
            end = at
        at = end + 1
    return module


def _file(parent: Path, name: str) -> Path:
    """Where a module is that a file declares."""
    folder = parent.parent if parent.stem in {"lib", "mod"} else parent.with_suffix("")
    return next(f for f in (folder / f"{name}.rs", folder / name / "mod.rs") if f.exists())


def _defined(tokens: list[str], at: int) -> str | None:
    """The name of the item that begins here."""
    if tokens[at] not in DEFINING or tokens[at - 1] == "*":  # `*const T` is a type
        return None
    following = next(t for t in tokens[at + 1 :] if t not in {"!", "mut"})
    return following if NAME.match(following) and following not in {"fn", "unsafe", "async"} else None


def _tokens(text: str) -> Iterator[str]:
    for found in TOKEN.finditer(text):
        if not NOT_CODE.match(found[0]):
            yield found[0]


def _code(tokens: list[str]) -> Iterator[str]:
    """Without attributes, and without what is compiled for tests only."""
    at = 0
    while at < len(tokens):
        if tokens[at] == "#" and tokens[at + 1 : at + 2] in (["["], ["!"]):
            end = _closed(tokens, tokens.index("[", at))
            if tokens[at:end] == ["#", "[", "cfg", "(", "test", ")", "]"]:
                end = _item_end(tokens, end)
            at = end
        else:
            yield tokens[at]
            at += 1


def _closed(tokens: list[str], at: int) -> int:
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += (tokens[end] in OPENING) - (tokens[end] in CLOSING)
        if not depth:
            return end + 1
    return len(tokens)


def _item_end(tokens: list[str], at: int) -> int:
    """Behind the item that begins at `at`: a semicolon, or the braces of its body."""
    is_use = "use" in tokens[at : at + 5]
    while at < len(tokens) and tokens[at] != ";":
        if tokens[at] in OPENING:
            body = tokens[at] == "{" and not is_use
            at = _closed(tokens, at)
            if body:
                return at
        else:
            at += 1
    return at + 1


def _leaves(tokens: list[str], before: tuple[str, ...] = ()) -> Iterator[Import]:
    """What a `use` declaration brings; whether it is public is the caller's to say."""
    path, name = before, ""
    for at, token in enumerate(tokens):
        if token == "{":
            for part in _parts(tokens[at + 1 : _closed(tokens, at) - 1]):
                yield from _leaves(part, path)
            return
        if token == "as":
            name = tokens[at + 1]
            break
        if token != "::":
            path = (*path, token)
    if path[-1] == "self":
        path = path[:-1]
    yield Import(name or path[-1], path)


def _parts(tokens: list[str]) -> list[list[str]]:
    """Split at the commas outside of brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in OPENING) - (token in CLOSING)
        if token == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [p for p in parts if p]


Seen = frozenset[tuple["Module", str]]


def _home(module: Module, path: tuple[str, ...], seen: Seen = frozenset()) -> tuple[Module, str] | None:
    """The file that defines what a path in `module` leads to, and its name there; None for a module, or what is not of
    this crate or made by a macro."""
    here: Module | None = module
    if path[0] == "crate":
        while here and here.parent:
            here = here.parent
    elif path[0] == "super":
        here = module.parent
    if path[0] in {"crate", "self", "super"}:
        path = path[1:]
    while here and path and (path[0] == "super" or path[0] in here.children):
        here, path = here.parent if path[0] == "super" else here.children[path[0]], path[1:]
    if not here or not path or (here, path[0]) in seen:
        return None
    if path[0] in here.defines:
        return here, path[0]
    seen |= {(here, path[0])}
    for brought in here.imports:
        if brought.name == path[0]:
            return _home(here, brought.path + path[1:], seen)
    everything = (_home(here, brought.path[:-1] + path, seen) for brought in here.imports if brought.name == "*")
    return next((home for home in everything if home), None)
