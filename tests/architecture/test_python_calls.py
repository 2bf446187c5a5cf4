"""Python code runs below a call of Rust only where the thread is parked if Python ends it (`crates/python/src/bridge/calls.rs`)."""

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "crates" / "python" / "src"
(CALLS,) = SOURCES.rglob("calls.rs")

# PyO3's methods that run Python code. `visit.call` shows an object to the cycle collector.
UNGUARDED = re.compile(
    r"(?<!visit)\.(?:call|call0|call1|call_method\w*|getattr\w*|hasattr|try_iter|repr|str|import|is_instance|is_truthy)\("
    r"|\bPyErr::warn\w*\(|\.write_unraisable\(py, None"
    r"|::<(?:PyMapping|PySequence)>\(\)"
)


@pytest.mark.parametrize(
    "path", sorted(set(SOURCES.rglob("*.rs")) - {CALLS}), ids=lambda path: str(path.relative_to(SOURCES))
)
def test_python_code_is_called_by_guarded_functions(path):
    assert UNGUARDED.findall(re.sub(r"//.*", "", path.read_text())) == []


def test_the_rule_knows_what_the_guarded_functions_wrap():
    assert UNGUARDED.search("class.call1((1,))")
    assert UNGUARDED.search('py.import("sys")')
    assert not UNGUARDED.search("visit.call(&self.0)")
    assert "ffi::PyObject_Call" in CALLS.read_text()
