"""The tables of kcat's and of Spark's options are whole, and name only what exists here."""

import contextlib
import io
import re
import shlex
import subprocess

import pytest
from scripts.docs import equivalents

from ottla import cli
from ottla.cli import commands
from ottla.spark.plan import read_options
from ottla.spark.write import options as write_options

# The options of kcat 1.7.1, by the heads of its help. `-o` and `-X` have several rows, and `-r` is in builds with Avro.
KCAT = {
    "General": {*"CPLQGtpbDKcmFXdqvEVh"},
    "Producer": {*"zpDKkHlTcXZ"},
    "Consumer": {*"oefJsDKOcZu"},
    "Metadata": {*"t"},
    "Query": {*"t"},
}
TITLES = {"General": "All modes", "Producer": "Produce", "Consumer": "Consume"}
# The options of `KafkaSourceProvider` in lower case; `tests/spark/test_options.py` reads them from Spark's jar.
SPARK = {
    *("assign", "subscribe", "subscribepattern", "topic", "includeheaders", "groupidprefix", "failondataloss"),
    *("startingoffsets", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy", "startingtimestamp"),
    *("endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp", "minpartitions", "maxrecordsperpartition"),
    *("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "kafkaconsumer.polltimeoutms"),
    *("fetchoffset.numretries", "fetchoffset.retryintervalms"),
}


def letters(options):
    return {each[1] for option in options for each in re.findall(r"(?:^| )(-[A-Za-z])\b", option)}


def flags(command):
    """The options of a command of ottla."""
    return set(re.findall(r"(?<![\w-])--?[\w-]+", helped(command)))


def helped(command):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit):
        cli.main([*command.split(), "--help"])
    return out.getvalue()


def test_each_option_of_kcat_has_a_row():
    for head, title in TITLES.items():
        assert KCAT[head] - letters(equivalents.KCAT[title]) == set(), title
    assert KCAT["Metadata"] | KCAT["Query"] <= letters(equivalents.KCAT["Metadata and offsets"])
    assert letters(["-s avro -r URL", "-o -COUNT"]) == {"s", "r", "o"}


@pytest.mark.nightly
@pytest.mark.needs("kcat")
def test_kcat_has_no_other_option():
    shown = subprocess.run(["kcat", "-h"], capture_output=True, text=True, timeout=30, check=False)
    parts = re.split(
        r"^(\w+) options.*:$", (shown.stdout + shown.stderr).partition("Format string")[0], flags=re.MULTILINE
    )
    found = {
        head: set(re.findall(r"^  (?:-\w \| )*-(\w)\b", text, re.MULTILINE))
        for head, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    found["General"] |= {*"CPL"}
    assert found == KCAT


@pytest.mark.parametrize(
    ("title", "names"), [("Produce", ["produce"]), ("Consume", ["consume"]), ("All modes", ["produce", "consume"])]
)
def test_the_options_of_a_row_exist(title, names):
    known = set.union(*map(flags, names))
    rows = equivalents.KCAT[title].values()
    named = [span for row in rows for span in re.findall(r"`(-[^`]*)`", row)]
    assert len(named) >= 8
    words = [word for span in named for word in re.findall(r"(?:^|(?<= ))--?[a-z][\w-]*", span)]
    assert [word for word in words if word not in known and word != "-vv"] == []


def test_the_commands_of_a_row_parse():
    spans = [
        span
        for rows in equivalents.KCAT.values()
        for row in rows.values()
        for span in re.findall(r"`ottla ([^`]+)`", row)
    ]
    assert len(spans) > 8
    for span in spans:
        if span.split()[-1] not in {"--version", "--help"}:
            commands.root("ottla", shlex.split(span)).parse_args(shlex.split(span))


def test_each_option_of_spark_has_a_row_and_exists():
    known = {*read_options.KNOWN, *write_options.KNOWN}
    own = [name for name in equivalents.SPARK if not name.startswith(("kafka.", "spark."))]
    assert {name.lower() for name in own} == SPARK
    assert [name for name in own if name not in known] == []
    assert set(read_options.OF_GROUPS) >= {"group.id"}
