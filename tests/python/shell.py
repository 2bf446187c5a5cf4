"""The command line in this process, as a user types it."""

from __future__ import annotations

import json
import shlex

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
