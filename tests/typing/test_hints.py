"""Hints of everything public can be evaluated, as pydantic, FastAPI and other readers of hints do.

Those of `ottla.spark` name types of PySpark, which ottla does not import.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla import aio
from ottla._sync import _transaction
from ottla.aio import _transaction as aio_transaction

MODULES = [
    "ottla",
    "ottla._properties",
    "ottla.aio",
    "ottla.errors",
    "ottla.log",
    "ottla.otel",
    "ottla.protocol",
    "ottla.testing",
]
# What calls return, and no module lists.
RETURNED = [_transaction.Transaction, aio_transaction.Transaction]


def functions(owner: Any) -> Iterator[Any]:
    """The public functions of a class, also behind properties, class methods and the like."""
    for name, value in vars(owner).items():
        if name.startswith("_") and not name.startswith("__"):
            continue
        for each in (value.fget, value.fset) if isinstance(value, property) else (getattr(value, "__func__", value),):
            # Those that `NamedTuple` writes have the namespace of no module.
            if inspect.isfunction(each) and each.__module__.startswith("ottla"):
                yield each


def public(module: Any) -> Iterator[Any]:
    for name in getattr(module, "__all__", [name for name in dir(module) if not name.startswith("_")]):
        value = getattr(module, name)
        if isinstance(value, type):
            yield value
            yield from functions(value)
        elif inspect.isfunction(value):
            yield value


def failures(found: Iterator[Any]) -> list[str]:
    failed = []
    for each in found:
        try:
            typing.get_type_hints(each)
        except NameError as error:
            failed.append(f"{each.__module__}.{each.__qualname__}: {error}")
    return failed


@pytest.mark.parametrize("name", MODULES)
def test_all_hints_can_be_evaluated(name: str) -> None:
    module = importlib.import_module(name)
    assert sum(1 for _ in public(module)) > 2, "something was looked at"
    assert failures(public(module)) == []


def test_hints_of_what_calls_return_can_be_evaluated() -> None:
    assert failures(each for cls in RETURNED for each in (cls, *functions(cls))) == []


def test_hints_are_the_types_themselves() -> None:
    import uuid

    from ottla._properties import ConsumerProperties

    hints = typing.get_type_hints(aio.Consumer.__init__)
    assert hints["properties"] == typing.Unpack[ConsumerProperties]
    assert typing.get_type_hints(ottla.TopicDescription)["id"] == uuid.UUID | None
    assert typing.get_type_hints(ottla.Admin.client_instance_id)["return"] is uuid.UUID


def test_to_evaluate_hints_imports_what_ottla_does_not() -> None:
    program = (
        "import sys, typing, ottla\n"
        "assert not {'uuid', 'ottla._properties'} & set(sys.modules)\n"
        "typing.get_type_hints(ottla.Admin.__init__)\n"
        "typing.get_type_hints(ottla.Admin.client_instance_id)\n"
        "assert {'uuid', 'ottla._properties'} <= set(sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
