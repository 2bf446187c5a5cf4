"""`ottla consume --from` of a store of tiered segments, alone and joined with the folder of its broker."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ottla.cli import main
from tests.python.shell import run
from tests.python.tiered_scenes import scenes, unpacked

ROOT = Path(__file__).parent
FOUND = scenes()["encrypted-zstd"]


@pytest.fixture
def source(tmp_path):
    """The folders of a broker and of its store, and the arguments that name the RSA key."""
    keys = []
    for name, pem in FOUND["keys"].items():
        (tmp_path / f"{name}.pem").write_text(pem)
        keys += ["--private-key", f"{name}={tmp_path / name}.pem"]
    return unpacked(FOUND["local"], tmp_path / "local"), unpacked(FOUND["store"], tmp_path / "store") / "pre", keys


def printed(*arguments):
    done = run("consume", *arguments, "--format", "json")
    assert (done.code, done.err) == (0, ""), done
    lines = map(json.loads, done.lines)
    return sorted([r["partition"], r["offset"], r["timestamp"], r["key"], r["value"]] for r in lines)


@pytest.mark.parametrize(("level", "flags"), [("read_uncommitted", []), ("read_committed", ["--read-committed"])])
def test_it_prints_what_the_broker_returned(source, level, flags):
    local, store, keys = source
    assert printed("--from", local, "--remote", store, *keys, *flags) == FOUND[level]
    window = printed("--from", local, "--remote", store, *keys, *flags, "orders", "-p", "1", "-o", "10:60")
    assert window == [row for row in FOUND[level] if row[0] == 1 and 10 <= row[1] < 60]
    alone = printed("--from", store, *keys, *flags)
    assert alone == [row for row in FOUND[level] if row in alone]
    assert len(FOUND[level]) / 2 < len(alone) < len(FOUND[level])


def test_what_it_refuses(source, tmp_path):
    local, store, keys = source
    for arguments, text in (
        (["--from", store], "encrypted with the RSA key 'first'"),
        (
            ["--from", store, "--private-key", f"first={tmp_path / 'none.pem'}"],
            "the file of key 'first' cannot be read",
        ),
        (["orders", "--remote", store], "add --from PATH"),
        (["orders", *keys], "add --from PATH"),
        (["--from", local, "--remote", local], "has no tiered segments"),
        (["--from", next(local.glob("orders-0/*.log")), "--remote", store], "leave --remote out"),
    ):
        done = run("consume", *arguments)
        assert done.code == 1, done
        assert text in done.err
    assert "NAME=FILE" in run("consume", "orders", "--private-key", "first").err


def test_a_store_whose_package_is_missing(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    for arguments in (["--from", "s3://bucket/tiered"], ["--from", str(ROOT), "--remote", "s3://bucket/tiered"]):
        assert main(["consume", *arguments]) == 1
        error = capsys.readouterr().err
        assert error.startswith("ottla: s3://bucket/tiered: ")
        assert "s3fs" in error
        assert error.endswith("with pip\n")
