"""The command line in this process: its standard streams are files."""

from __future__ import annotations

import io
import sys
from typing import NamedTuple

import pytest

from ottla import cli


class Done(NamedTuple):
    """What became of a command."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self):
        return self.out.splitlines()


class _Standard(io.TextIOWrapper):
    """A standard stream in memory, which has no descriptor."""

    def __init__(self, data=b""):
        super().__init__(io.BytesIO(data), encoding="utf-8", write_through=True)


def run(*arguments, data=b""):
    """Run a command."""
    out, err = _Standard(), _Standard()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", _Standard(data))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        try:
            code = cli.main([str(each) for each in arguments])
        except SystemExit as ended:
            code = ended.code
    return Done(code, out.buffer.getvalue(), err.buffer.getvalue().decode())
