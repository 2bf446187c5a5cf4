"""Write the tables of the reference from the source: properties, error codes, APIs, and the names of other clients."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from scripts.docs import equivalents

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "crates" / "engine" / "src" / "config"

TITLES = {
    "ClientProperties": "Every client",
    "RecordProperties": "Producers, consumers and share consumers",
    "FetchProperties": "Consumers and share consumers",
    "AdminProperties": "Admin clients",
    "ConsumerProperties": "Consumers",
    "ProducerProperties": "Producers",
    "ShareConsumerProperties": "Share consumers",
}
PROPERTIES_HEAD = """# Properties

Written by `scripts/docs/tables.py` from `python/ottla/_properties.py`.

Each property is a keyword with underscores (`linger_ms=5`) or a key of `config` (`config={"linger.ms": 5}`).
`ottla config producer`, `consumer`, `share-consumer` and `admin` print the same list in a terminal.
`bootstrap.servers` is the first argument of every client.
"""


def properties() -> str:
    """The page of all properties."""
    module = ast.parse((ROOT / "python" / "ottla" / "_properties.py").read_text())
    lines = [PROPERTIES_HEAD]
    for node in module.body:
        if not isinstance(node, ast.ClassDef):
            continue
        rows = _documented(node)
        if rows:
            lines += [f"## {TITLES[node.name]}", "", "| property | type | default | meaning |", "|---|---|---|---|"]
            lines += [_property(*row) for row in rows]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _documented(node: ast.ClassDef) -> list[tuple[str, str, str]]:
    """Name, type and text of each field."""
    rows = []
    for field, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            rows.append((ast.unparse(field.target), ast.unparse(field.annotation), str(text.value.value)))
    return rows


def _property(name: str, hint: str, text: str) -> str:
    text = " ".join(text.split())
    text, _, default = text.partition(" Default: ")
    default = f"`{default.rstrip('.')}`" if default else ""
    name = name if name == "sasl_token" else name.replace("_", ".")
    kind = hint.removesuffix(" | None").replace("|", "\\|")
    return f'| <span id="{name}"></span>`{name}` | `{kind}` | {default} | {cell(text)} |'


def cell(text: str) -> str:
    """Text that a cell of a table can hold."""
    return re.sub(r"(?<!\\)\|", "\\|", text)


def error_codes() -> str:
    """The page of error codes."""
    rows = json.loads((ROOT / "schemas" / "errors.json").read_text())
    lines = [
        "# Error codes",
        "",
        "Written by `scripts/docs/tables.py` from `schemas/errors.json`, Kafka's own table.",
        "",
        "`ottla.protocol.ErrorCode` has the same names. An error of ottla has the broker's code in `error.code`;",
        "[Errors](../guides/errors.md) lists the exceptions.",
        "",
        "| code | name | a retry can succeed |",
        "|---|---|---|",
    ]
    lines += [f"| {row['code']} | `{row['name']}` | {'yes' if row['retriable'] else 'no'} |" for row in rows]
    return "\n".join(lines) + "\n"


def protocol() -> str:
    """The page of APIs, from the schemas that the codec is made of."""
    lines = [
        "# Protocol",
        "",
        "Written by `scripts/docs/tables.py` from `schemas/request`.",
        "",
        "ottla encodes and decodes every message at every version of this table: by",
        "[`ottla.protocol`](api/protocol.md) in Python, and in a terminal by",
        "[`ottla decode`](../command-line.md#decode).",
        "",
        "| key | API | versions | compact encoding from |",
        "|---|---|---|---|",
    ]
    rows = []
    for path in sorted((ROOT / "schemas" / "request").glob("*.json")):
        schema = json.loads(re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE))
        if "apiKey" in schema:
            flexible = schema.get("flexibleVersions", "none").rstrip("+")
            flexible = "" if flexible == "none" else flexible
            rows.append((schema["apiKey"], schema["name"].removesuffix("Request"), schema["validVersions"], flexible))
    lines += [f"| {key} | {name} | {versions} | {flexible} |" for key, name, versions, flexible in sorted(rows)]
    return "\n".join(lines) + "\n"


def moved_properties() -> str:
    """A table of property names of other clients, from `moved.rs`."""
    source = (CONFIG / "moved.rs").read_text().partition("#[cfg(test)]")[0]
    texts = {name: _rust(text) for name, text in re.findall(r'const (\w+): &str =\s*"((?:[^"\\]|\\.|\\\n)*)";', source)}
    lines = ["| name elsewhere | here |", "|---|---|"]
    spelled = source.partition("const SPELLINGS")[2].partition("];")[0]
    lines += [
        f"| `{a}` | `{b}`, also accepted as it is |"
        for a, b in re.findall(r'\(\s*"([^"]+)",\s*"([^"]+)",?\s*\)', spelled)
    ]
    names = source.partition("static NAMES")[2].partition("\n];")[0]
    row = r'\("([^"]+)", Instead::(Write|Times|Do)\((\w+|"(?:[^"\\]|\\.|\\\n)*")(?:, (\d+))?\)\)'
    for name, kind, what, factor in re.findall(row, names):
        if kind == "Do":
            text = cell(_capital(texts.get(what) or _rust(what.strip('"'))))
        else:
            text = f"`{what.strip(chr(34))}`" + (f", multiplied by {factor}" if kind == "Times" else "")
        lines.append(f"| `{name}` | {text} |")
    return "\n".join(lines)


def _rust(text: str) -> str:
    """The value of a string literal of Rust."""
    return re.sub(r"\\\n\s*", "", text).replace('\\"', '"')


def _capital(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text.replace("*", "\\*")


def other_calls(*classes: str) -> str:
    """A table of methods of other clients, from `_habits.py`.

    Args:
        classes: The names of the classes, as `_habits.py` has them.
    """
    namespace: dict[str, object] = {}
    tree = ast.parse((ROOT / "python" / "ottla" / "_habits.py").read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.Assign)]
    exec(compile(tree, "_habits.py", "exec"), namespace)
    table = namespace["_INSTEAD"]
    assert isinstance(table, dict)
    lines = ["| method elsewhere | here |", "|---|---|"]
    for name in classes:
        kind = name.removeprefix("aio.").removeprefix("Share").lower()
        lines += [f"| `{kind}.{method}` | {cell(_as_code(instead))} |" for method, instead in table[name].items()]
    return "\n".join(lines)


def _as_code(text: str) -> str:
    """The call in code, the rest as text."""
    if text.startswith("nothing: "):
        return f"not needed: {text.removeprefix('nothing: ')}"
    call, rest = re.match(r"(.*?)((?:, (?:which|with|where) |: |\. ).*)?$", text).groups()  # type: ignore[union-attr]
    return re.sub(r"(, or | and )", r"`\1`", f"`{call}`") + (rest or "")


TABLES = {
    "properties": moved_properties,
    "calls": lambda: other_calls("Producer", "Consumer", "Admin"),
    "asyncio-calls": lambda: other_calls("aio.Producer", "aio.Consumer", "aio.Admin"),
    "share-calls": lambda: other_calls("ShareConsumer"),
    "kcat-options": equivalents.kcat,
    "spark-source-options": equivalents.spark,
}
"""What a page has in place of `<!-- table: NAME -->`."""
