"""Editors read sources and stubs, `help()` reads the compiled module: both show the same, and asyncio's twins say the same."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla import _ottla, aio

if TYPE_CHECKING:
    from collections.abc import Iterator

STUB = Path(_ottla.__file__).parent / "_ottla.pyi"
# Compiled classes that users see, some of them as a base of a facade.
PUBLIC = [
    "AsyncDeliveries",
    "AsyncDelivery",
    "Batch",
    "Deliveries",
    "Delivery",
    "Record",
    "SyncConsumer",
    "SyncProducer",
]
FACADES = ["Admin", "Consumer", "Producer", "ShareConsumer", "Transform"]
# What differs between a call and its twin: `send` returns another kind of delivery, `flush` waits for callbacks that only
# threads have, a transaction is for another kind of `with`, iterations give other tasks their turn, and a task is cancelled
# where a thread is interrupted.
DIFFERENT = {
    *(("Producer", each) for each in ("send", "flush", "transaction")),
    *(("Consumer", each) for each in ("subscribe", "unsubscribe", "close", "batches")),
    *(("ShareConsumer", each) for each in ("set_acknowledgement_callback", "batches")),
    ("Transform", "run"),
}

# The modules that the API's reference describes.
MODULES = ["", ".aio", ".errors", ".log", ".otel", ".protocol", ".spark", ".testing"]


def said(text: str | None) -> str:
    """A docstring without its layout."""
    return " ".join((text or "").split())


def in_stub(name: str) -> dict[str, str]:
    """Docstrings of a class of the stub and of what it has, by name; the class's own is at ''."""
    module = ast.parse(STUB.read_text())
    [found] = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == name]
    functions = [node for node in found.body if isinstance(node, ast.FunctionDef)]
    return {"": said(ast.get_docstring(found))} | {
        node.name: said(ast.get_docstring(node)) for node in functions if not node.name.startswith("_")
    }


def public(cls: type) -> list[str]:
    return [name for name in vars(cls) if not name.startswith("_")]


def offered(facade: type) -> list[str]:
    """What users may call. Names that other clients have are there only to raise."""
    return [name for name in dir(facade) if not name.startswith("_") and hasattr(facade, name)]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_stub_says_what_help_says(name):
    compiled = getattr(_ottla, name)
    helped = {"": said(compiled.__doc__)} | {each: said(getattr(compiled, each).__doc__) for each in public(compiled)}
    assert in_stub(name) == helped
    assert all(helped.values()), helped


@pytest.mark.parametrize("name", FACADES)
def test_every_public_name_of_a_facade_is_documented(name):
    for module in (ottla, aio):
        facade = getattr(module, name)
        for each in offered(facade):
            public = getattr(facade, each)
            assert said(inspect.getdoc(public)), f"{module.__name__}.{name}.{each}"
            takes = inspect.signature(public).parameters if callable(public) else {}
            assert "timeout" not in takes or ("0 does not wait; None waits" in said(public.__doc__)), (
                f"{module.__name__}.{name}.{each}"
            )


@pytest.mark.parametrize("name", FACADES)
def test_asyncio_says_what_threads_are_told(name):
    threads, asyncio = getattr(ottla, name), getattr(aio, name)
    names = offered(threads)
    assert names == offered(asyncio)
    for each in names:
        same = said(getattr(threads, each).__doc__) == said(getattr(asyncio, each).__doc__)
        assert same != ((name, each) in DIFFERENT), f"{name}.{each}"


def test_no_verb_is_written_twice():
    """Twins with an underscore are what the operations replaced. `_core` leads to them, `_notify`, `_watch` and
    `_tell` are for callbacks, `_repr_html_` is what notebooks call, `_ottla_read` and `_ottla_write` give a
    client of compat its inbox or outbox."""
    for name, cls in vars(_ottla).items():
        if isinstance(cls, type):
            private = {each for each in vars(cls) if each.startswith("_") and not each.startswith("__")}
            assert private <= {"_core", "_notify", "_watch", "_tell", "_repr_html_", "_ottla_read", "_ottla_write"}, (
                name
            )


def compiled_functions(name: str) -> Iterator[tuple[str, str, ast.FunctionDef]]:
    """Public methods of a class of the stub, each with its docstring."""
    classes = [
        node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef) and node.name == name
    ]
    for node in (each for found in classes for each in found.body):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and not node.decorator_list:
            yield f"{name}.{node.name}", ast.get_docstring(node) or "", node


def written_functions(name: str, owner: object) -> Iterator[tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """A public function, or the public methods of a class that is written in Python, each with its docstring."""
    functions = {name: owner}
    if isinstance(owner, type):
        functions = {f"{name}.{each}": found for each, found in vars(owner).items() if not each.startswith("_")}
    for each, found in functions.items():
        function = inspect.unwrap(getattr(found, "__func__", found))
        if inspect.isfunction(function):
            [node] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
            assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield each, inspect.getdoc(found) or "", node


def public_functions(module: str) -> Iterator[tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    found = importlib.import_module(f"ottla{module}")
    for name in found.__all__:
        public = getattr(found, name)
        for owner in public.__mro__ if isinstance(public, type) else [public]:
            if getattr(owner, "__module__", "").startswith("ottla"):
                yield from written_functions(name, owner)
                if isinstance(owner, type) and getattr(_ottla, owner.__name__, None) is owner:
                    yield from compiled_functions(owner.__name__)


def undescribed(doc: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The sections that a docstring lacks."""
    result = ast.unparse(node.returns) if node.returns else "None"
    raises = any(isinstance(each, ast.Raise) and each.exc is not None for each in ast.walk(node))
    lacks = []
    if result not in {"None", "Never", "NoReturn"} and "Returns:" not in doc and "Yields:" not in doc:
        lacks.append("Returns")
    if raises and "Raises:" not in doc:
        lacks.append("Raises")
    return lacks


@pytest.mark.parametrize("module", MODULES)
def test_results_and_errors_of_public_functions_are_described(module: str) -> None:
    lacking = {name: lacks for name, doc, node in public_functions(module) if (lacks := undescribed(doc, node))}
    assert lacking == {}


def test_public_functions_of_both_kinds_are_looked_at() -> None:
    names = {name for module in MODULES for name, _, _ in public_functions(module)}
    assert {"read", "Consumer.poll", "Batch.to_arrow", "SyncConsumer.batches", "AsyncDelivery.result"} <= names
    assert {"Listener.parse", "Rows.to_arrow", "SchemaRegistry.latest", "process", "scan"} <= names
    [bare] = ast.parse("def f() -> int:\n    raise ValueError").body
    assert isinstance(bare, ast.FunctionDef)
    assert undescribed("Return it.", bare) == ["Returns", "Raises"]


@pytest.mark.parametrize("module", MODULES)
def test_completion_offers_what_is_public(module: str) -> None:
    """Consoles and notebooks complete what `dir` lists: also what is imported on first use, and no import of ours."""
    found = importlib.import_module(f"ottla{module}")
    assert dir(found) == sorted(found.__all__)
    for name in dir(found):
        assert getattr(found, name) is not None
