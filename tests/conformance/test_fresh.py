"""Kafka's classes write the corpora again: with the seed of the stored ones and, in `make nightly`, with a new seed.

The new seed is `OTTLA_SEED`; without it, a number made from the tree of files, so that a failure stays until it is mended.
A failure prints its seed.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.conformance import kafka

KEPT = Path(__file__).parent
ROOT = KEPT.parents[1]
KEPT_SEED = 1
FRESH_GROUPS = 1_000
# The segments of tiered storage are a broker's, with times and ids of their own: tiered_corpus.py writes them.
CORPORA = sorted(path.name for path in KEPT.glob("*.jsonl.gz") if not path.name.startswith("tiered"))

pytestmark = [kafka.needs_kafka, pytest.mark.timeout(900)]


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().rstrip("\n").split("\n")


def comparable(line: str) -> str:
    """The line; of records that a compressor wrote, what they are: another zlib may make other bytes."""
    parsed = json.loads(line)
    return line if parsed.get("canonical", True) else parsed["kind"]


def test_the_kept_corpora_are_what_the_jars_write(tmp_path):
    kafka.generate(KEPT_SEED, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == CORPORA
    for name in CORPORA:
        fresh, kept = lines(tmp_path / name), lines(KEPT / name)
        assert len(fresh) == len(kept), name
        different = [i for i, (a, b) in enumerate(zip(fresh, kept, strict=True)) if comparable(a) != comparable(b)]
        assert not different, f"{name}: lines {different[:5]}"


def new_seed() -> int:
    """`OTTLA_SEED`, or a number that changes with every commit that changes a file; any number where there is no repository."""
    if seed := os.environ.get("OTTLA_SEED"):
        return int(seed)
    git = ["git", "rev-parse", "HEAD^{tree}"]
    tree = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
    return int(tree[:7], 16) if tree else random.SystemRandom().randrange(1 << 28)


@pytest.mark.nightly
@pytest.mark.needs("cargo")
def test_a_corpus_under_a_fresh_seed_holds(tmp_path):
    seed = new_seed()
    print(f"OTTLA_SEED={seed}")
    kafka.generate(seed, tmp_path, FRESH_GROUPS)
    assert lines(tmp_path / CORPORA[-1]) != lines(KEPT / CORPORA[-1])
    # As `rust_tests` of scripts/cargo.sh, so that nothing is built twice.
    checked = ["--profile", "gate", "--workspace", "--exclude", "ottla-sim", "--locked", "--quiet"]
    for tests in (
        [*checked, "--test", "messages", "--test", "refusals", "--test", "assignors"],
        [*checked, "--tests", "records::tests::corpus"],
    ):
        done = subprocess.run(
            ["cargo", "test", *tests],
            cwd=ROOT,
            env={**os.environ, "CARGO_PROFILE_GATE_OPT_LEVEL": "0", "OTTLA_CORPUS": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        assert done.returncode == 0, f"OTTLA_SEED={seed}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        # A filter that names nothing would pass.
        assert " passed; " in done.stdout.replace(" 0 passed; ", ""), done.stdout


@pytest.mark.parametrize(
    "seed", [pytest.param(KEPT_SEED, id="stored"), pytest.param(new_seed(), id="new", marks=pytest.mark.nightly)]
)
def test_assignors_of_both_releases_assign_alike(seed, tmp_path):
    for release in (kafka.NEWEST, kafka.OLDER):
        kafka.run(release, "AssignorOracle", seed, 250, tmp_path / release)
    newest, older = lines(tmp_path / kafka.NEWEST), lines(tmp_path / kafka.OLDER)
    assert len(newest) == 4 * 250, f"seed {seed}"
    assert [i for i, (a, b) in enumerate(zip(newest, older, strict=True)) if a != b] == [], f"seed {seed}"
