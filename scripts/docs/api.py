"""Write the pages of the Python API from the source, by griffe, which reads it without importing it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import griffe

if TYPE_CHECKING:
    from collections.abc import Iterator

# The public modules, and the name of the page of each.
MODULES = {
    "ottla": "ottla",
    "ottla.aio": "aio",
    "ottla.errors": "errors",
    "ottla.log": "log",
    "ottla.otel": "otel",
    "ottla.protocol": "protocol",
    "ottla.spark": "spark",
    "ottla.testing": "testing",
}


# Public names of `ottla` that the module imports on first use, which griffe does not follow.
_LATER = {
    "ottla.spark.read_kafka": "ottla.spark.read.map_in_arrow.read_kafka",
    "ottla.spark.stream_kafka": "ottla.spark.read.foreach_batch.stream_kafka",
    "ottla.spark.write_kafka": "ottla.spark.write.map_in_arrow.write_kafka",
}


def pages(source: Path) -> dict[str, str]:
    """Each page by its path below `reference/api`.

    Args:
        source: The folder that has the package, such as `python`.
    """
    package = griffe.load(
        "ottla", search_paths=[str(source)], allow_inspection=False, docstring_parser="google", resolve_aliases=True
    )
    return {f"{page}.md": _module(package, name) for name, page in MODULES.items()}


def _module(package: Any, name: str) -> str:
    module = package if name == "ottla" else package[name.removeprefix("ottla.")]
    lines = [f"# {name}", ""]
    if module.docstring:
        lines += [*_sections(module.docstring), ""]
    submodules = set(MODULES) | {"ottla.cli"}
    exports = sorted((str(export) for export in module.exports or ()), key=str.lower)
    for public in exports:
        path = f"{name}.{public}"
        if path in submodules:
            continue
        found = _object(package, module, path)
        lines += _class(public, found) if found.is_class else _plain(public, found, "##")
    return "\n".join(lines).rstrip() + "\n"


def _object(package: Any, module: Any, path: str) -> Any:
    short = path.rpartition(".")[2]
    # Results of admin calls are imported on first use, too.
    member = package[_LATER[path].removeprefix("ottla.")] if path in _LATER else module.members.get(short)
    member = member or package["_admin"][short]
    return member.final_target if member.is_alias else member


def _class(name: str, found: Any) -> list[str]:
    bases = [base.rpartition(".")[2] for base in map(str, found.bases)]
    shown = f"({', '.join(base for base in bases if not base.startswith('_'))})" if bases else ""
    init = found.all_members.get("__init__")
    declared = f"class {name}{shown}"
    if init is not None and init.is_function:
        declared = f"class {_call(name, init)}"
    lines = [f"## {name}", "", "```text", declared, "```", ""]
    if found.docstring:
        lines += [*_sections(found.docstring), ""]
    for public, member in _members(found):
        lines += _plain(f"{name}.{public}", member, "###")
    return lines


def _members(found: Any) -> Iterator[tuple[str, Any]]:
    """What a reader may use: public, and described, since attributes are in the docstring of the class."""
    for public, member in found.all_members.items():
        target = member.final_target if member.is_alias else member
        if not public.startswith("_") and target.docstring and target.kind.value in {"function", "attribute"}:
            yield public, target


def _plain(name: str, found: Any, level: str) -> list[str]:
    heading = f"`{name}`" if name.startswith("__") else name  # Markdown would make `__version__` bold
    lines = [f"{level} {heading}", ""]
    short = name.rpartition(".")[2]
    if found.is_function:
        prefix = "async def " if "async" in found.labels else "def "
        returns = f" -> {found.returns}" if found.returns is not None else ""
        lines += ["```text", f"{prefix}{_call(short, found)}{returns}", "```", ""]
    elif found.annotation is not None:
        lines += ["```text", f"{short}: {found.annotation}", "```", ""]
    if found.docstring:
        lines += [*_sections(found.docstring), ""]
    return lines


def _call(name: str, function: Any) -> str:
    """A signature, on several lines if it is long."""
    parts = []
    keyword_only = False
    for parameter in function.parameters:
        if parameter.name in {"self", "cls"}:
            continue
        kind = parameter.kind.value
        if kind == "keyword-only" and not keyword_only and not any(part.startswith("*") for part in parts):
            parts.append("*")
        keyword_only = kind == "keyword-only"
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        hint = f": {parameter.annotation}" if parameter.annotation is not None else ""
        default = f" = {parameter.default}" if parameter.default is not None and not stars else ""
        parts.append(f"{stars}{parameter.name}{hint}{default}")
    line = f"{name}({', '.join(parts)})"
    return line if len(line) <= 90 else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _sections(docstring: Any) -> list[str]:
    """The docstring as Markdown: text as it stands, arguments and errors as lists."""
    lines: list[str] = []
    for section in docstring.parse("google", warnings=False):
        kind = section.kind.value
        if kind == "text":
            lines += [_text(section.value), ""]
        elif kind in {"parameters", "other parameters", "attributes"}:
            lines += [f"**{'Attributes' if kind == 'attributes' else 'Arguments'}**", ""]
            lines += [f"- `{item.name}`: {_one_line(item.description)}" for item in section.value]
            lines += [""]
        elif kind in {"returns", "yields"}:
            lines += [f"**{kind.title()}**: {' '.join(_one_line(item.description) for item in section.value)}", ""]
        elif kind in {"raises", "warns"}:
            lines += [f"**{kind.title()}**", ""]
            lines += [f"- `{item.annotation}`: {_one_line(item.description)}" for item in section.value]
            lines += [""]
        elif kind == "examples":
            for what, text in section.value:
                lines += [f"```pycon\n{text}\n```" if what.value == "examples" else _text(text), ""]
        elif kind == "admonition":
            lines += [f"**{section.title}** {_text(section.value.description)}", ""]
    return lines[:-1] if lines and not lines[-1] else lines


def _text(text: str) -> str:
    """Text whose blocks are shown as they are: no page runs what a docstring shows."""
    text = re.sub(r"^(\s*)```python$", r"\1```py", text, flags=re.MULTILINE)
    return re.sub(r"\]\((?!https?:|#)[^)]*\)", "]", text)


def _one_line(text: str) -> str:
    return " ".join(_text(text).split())
