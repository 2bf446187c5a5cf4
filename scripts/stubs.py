"""Write the docstrings of python/ottla/_ottla.pyi, which editors read, from the compiled module, whose source is Rust.

To document another class or method there, give it any docstring, build the extension and run this. A test holds the
stub against the module.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from ottla import _ottla

if TYPE_CHECKING:
    from collections.abc import Iterator

STUB = Path(__file__).parent.parent / "python" / "ottla" / "_ottla.pyi"


def text() -> str:
    """The stub's source."""
    source = STUB.read_text()
    lines = source.splitlines()
    # From the end on, so that the numbers of the lines before stay right.
    for written, said in reversed(list(_docstrings(ast.parse(source)))):
        indent = " " * written.col_offset
        shown = f'"""{said}\n"""' if "\n" in said else f'"""{said}"""'
        lines[written.lineno - 1 : written.end_lineno] = textwrap.indent(shown, indent).splitlines()
    return "\n".join(lines) + "\n"


def _docstrings(module: ast.Module) -> Iterator[tuple[ast.Constant, str]]:
    """Each docstring of the stub, and what it has to say."""
    for cls in module.body:
        # A typed dictionary is the stub's own.
        if not isinstance(cls, ast.ClassDef) or (compiled := getattr(_ottla, cls.name, None)) is None:
            continue
        for node in (cls, *cls.body):
            match node:
                # The slots of Python's operators have its own texts in the module.
                case ast.FunctionDef(name=name) if name.startswith("__"):
                    continue
                case ast.FunctionDef(name=name, body=[ast.Expr(value=ast.Constant(value=str()) as written), *_]):
                    yield written, _said(getattr(compiled, name), f"{cls.name}.{name}")
                case ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str()) as written), *_]):
                    yield written, _said(compiled, cls.name)


def _said(compiled: object, name: str) -> str:
    found = inspect.getdoc(compiled)
    if not found:
        raise ValueError(f"{name} has a docstring in {STUB.name}, but none in the compiled module")
    return found


if __name__ == "__main__":
    STUB.write_text(text())
