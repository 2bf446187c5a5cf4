"""Editors read sources and stubs, `help()` reads the compiled module: both show the same, and asyncio's twins say the same."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import ottla
from ottla import _ottla, aio

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


@pytest.mark.parametrize("module", ["", ".aio", ".errors", ".log", ".otel", ".protocol", ".spark", ".testing"])
def test_completion_offers_what_is_public(module: str) -> None:
    """Consoles and notebooks complete what `dir` lists: also what is imported on first use, and no import of ours."""
    found = importlib.import_module(f"ottla{module}")
    assert dir(found) == sorted(found.__all__)
    for name in dir(found):
        assert getattr(found, name) is not None
