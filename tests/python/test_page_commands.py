"""Every command of `ottla` that README or a page names is one that the command line takes, and those of blocks run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib

import pytest

import ottla
from ottla.cli import commands as verbs
from ottla.testing import Broker
from tests.pace import patience
from tests.page_blocks import ROOT
from tests.page_commands import commands, lines

ALL = list(lines())
# Names of a part of the command line, to which a reader adds something.
PARTS = {"ottla COMMAND --help", "ottla COMMAND VERB --help"}
RUN = [line for line in ALL if line.kind != "span"]
# Why lines do not run here.
ELSEWHERE = {
    "docs/command-line.md": "test_cli.py and test_cli_decode.py compare what they print",
    "docs/integrations/": "they install packages",
    "docs/spark/clusters.md": "it needs a cluster",
}
ENDLESS = {
    "ottla consume flights": "it ends at Ctrl-C",
    "ottla consume flights --tail 10": "it ends at Ctrl-C",
    "ottla broker --nodes 3 --topic flights:6": "it ends at Ctrl-C",
    'ottla broker --make-certificates ./tls --user alice:alice-secret --acl "alice all topic:*" --acl "alice all group:*"': (
        "it ends at Ctrl-C"
    ),
}
STORES = {
    "ottla consume --from /var/lib/kafka/data --remote s3://bucket/tiered flights": "test_cli_consume_tiered.py joins one",
    "ottla consume --from s3://bucket/tiered --private-key key-1=/etc/kafka/key-1.pem flights": "the same reads it",
}
DEADLINE = patience(20)


def bare(line):
    return line.text.partition("  #")[0].strip()


def refused(text, capsys):
    """Why the command line does not take a line; empty if it does."""
    for words in commands(text):
        # A name alone, such as `ottla topics`, is that of a command or of a group of commands.
        is_name = not any(word.startswith("-") for word in words)
        status, strays = 0, []
        try:
            _, strays = verbs.root(f"ottla {ottla.__version__}", words).parse_known_args(words)
        except SystemExit as end:
            status = end.code
        error = capsys.readouterr().err
        if strays or (status and not (is_name and "arguments are required" in error)):
            return f"{text}: {strays or error}"
    return ""


@pytest.mark.parametrize("page", sorted({line.page for line in ALL if commands(line.text)}))
def test_the_command_line_takes_what_a_page_names(page, capsys):
    texts = sorted({line.text for line in ALL if line.page == page} - PARTS)
    assert [why for text in texts if (why := refused(text, capsys))] == []


def test_commands_of_all_kinds_are_looked_at():
    found = [line.kind for line in ALL if commands(line.text)]
    assert found.count("span") > 190
    assert found.count("typed") > 15
    assert commands("FOO=1 tail x | ottla produce a < b; ottla consume 'c d' > e # ottla x") == [
        ["produce", "a"],
        ["consume", "c d"],
    ]


def test_a_wrong_option_is_seen(capsys):
    assert "--begining-of" in refused("ottla consume -t a --begining-of 3", capsys)
    assert "invalid choice" in refused("ottla topic", capsys)
    assert refused("ottla topics", capsys) == ""


def test_every_extra_that_a_page_installs_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        name
        for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for names in re.findall(r"ottla\[([\w,-]+)\]", path.read_text())
        for name in names.split(",")
    }
    assert len(named) > 10
    assert named - set(extras) == set()


def test_every_target_of_make_that_a_page_names_exists():
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = [path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]]
    named = {name for text in texts for name in re.findall(r"(?:^    |`)make ([a-z-]+)", text, re.MULTILINE)}
    assert len(named) > 5
    assert named - known == set()


def runs():
    for line in RUN:
        why = next((why for page, why in ELSEWHERE.items() if line.page.startswith(page)), "")
        if not why and bare(line) not in ENDLESS | STORES:
            yield line


@pytest.fixture
def shell(tmp_path):
    """A shell beside a broker whose topics have what the lines name."""
    with Broker(topics=["flights", "a", "b"]) as broker:
        with ottla.Producer(broker.bootstrap_servers) as producer:
            producer.send_many("flights", [b"N123"] * 20, keys=b"JFK").result(DEADLINE)
            producer.send_many("a", [b"x", None], keys=[b"k", None], headers={"h": b"1"}).result(DEADLINE)
        (tmp_path / "flights.txt").write_text("JFK:N123\nLHR:G-ABCD\n")
        table = ottla.read(broker.bootstrap_servers, "flights").to_arrow()
        __import__("pyarrow.parquet").parquet.write_table(table, tmp_path / "flights.parquet")
        program = tmp_path / "bin" / "ottla"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ottla "$@"\n')
        program.chmod(0o755)
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"

        def run(line):
            environment = {**os.environ, "PATH": path, "OTTLA_BOOTSTRAP": broker.bootstrap_servers}
            return subprocess.run(
                ["sh", "-ec", line],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=DEADLINE,
                check=False,
            )

        yield run


@pytest.mark.parametrize("line", sorted({line.text for line in runs()}))
def test_a_line_runs(shell, line):
    done = shell(line)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_each_reason_is_about_a_line():
    assert {bare(line) for line in RUN} >= set(ENDLESS)
    assert [page for page in ELSEWHERE if not any(line.page.startswith(page) for line in RUN)] == []
    assert len(set(runs())) >= 6
