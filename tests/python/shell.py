"""The command line in this process, as a user types it."""

from __future__ import annotations

import io
import json
import shlex
import sys
from typing import NamedTuple

import pytest

from ottla import cli


class Shell:
    """Runs commands on one broker. Calls return the exit status, standard output and standard error."""

    def __init__(self, capsys, config):
        self._capsys = capsys
        config = dict(config)
        self._given = ["-b", config.pop("bootstrap.servers")]
        for key, value in config.items():
            self._given += ["--config", f"{key}={value}"]

    def __call__(self, line):
        self._capsys.readouterr()
        verb, *rest = shlex.split(line)
        try:
            code = cli.main([verb, *self._given, *rest])
        except SystemExit as end:
            code = end.code
        out, err = self._capsys.readouterr()
        return code, out, err

    def rows(self, line, *, code=0):
        """The items of a command that prints JSON; all of it is one envelope."""
        got, out, err = self(f"{line} --format json")
        envelope = json.loads(out)
        assert got == code, err
        assert envelope.keys() == {"command", "items", "failures"}
        assert bool(envelope["failures"]) == bool(code)
        assert bool(err) == bool(code)
        return envelope["items"]

    def ok(self, line):
        """The lines of a command that succeeds and warns of nothing."""
        code, out, err = self(line)
        assert (code, err) == (0, ""), (out, err)
        return out.splitlines()

    def fails(self, line):
        """The standard error of a command that fails."""
        code, _, err = self(line)
        assert code == 1
        assert "Traceback" not in err
        return err


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
