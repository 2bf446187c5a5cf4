"""The examples in docstrings are what Python prints."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import ottla.protocol

MODULES = [
    "ottla.protocol",
    *(f"ottla.protocol.{found.name}" for found in pkgutil.iter_modules(ottla.protocol.__path__)),
]


def test_there_are_examples() -> None:
    found = [example for name in MODULES for example in doctest.DocTestFinder().find(importlib.import_module(name))]
    assert sum(bool(example.examples) for example in found) >= 5


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
