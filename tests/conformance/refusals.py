#!/usr/bin/env python3
"""Write refusals.jsonl.gz: how Kafka's own classes refuse the requests of the schema corpora.

    python tests/conformance/refusals.py [--corpus DIR] [--out FILE]

Needs a JDK and Maven, which gets the jars of both releases. The same corpora give the same file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.brokers import brokers, jars  # noqa: E402

# Each corpus of requests, and the release that answers them.
CORPORA = {"schemas-4.4.0.jsonl.gz": "4.4.0", "schemas-3.9.1-only.jsonl.gz": "3.9.1"}
# The samples of each request and version, by kind.
SAMPLES = {"default": 1, "nulls": 1, "full": 1, "tags": 1, "random": 2}
# Produce, DescribeAcls, CreateAcls, DeleteAcls: what ErrorResponses.java says of them.
MADE = {0, 29, 30, 31}


def requests(corpus: Path) -> list[str]:
    """Requests as ErrorResponses.java reads them, none twice."""
    chosen: dict[str, None] = {}
    counts: Counter[tuple[int, int, str]] = Counter()
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        for line in lines:
            sample = json.loads(line)
            if sample["type"] != "request":
                continue
            api, version, kind = sample["api"], sample["v"], sample["kind"]
            counts[api, version, kind] += 1
            if counts[api, version, kind] > SAMPLES.get(kind, 0):
                continue
            if api in MADE:
                chosen[f"{api} {version} made"] = None
            chosen[f"{api} {version} {sample['hex']}"] = None
    return list(chosen)


def answers(asked: list[str], release: str) -> bytes:
    """What the classes of a release answer, a line each."""
    if shutil.which("javac") is None:
        raise SystemExit("javac is needed, and not found")
    kafka = jars.class_path(jars.fetch(release))
    with tempfile.TemporaryDirectory() as classes:
        source = HERE / "java" / "ErrorResponses.java"
        subprocess.run(["javac", "-cp", kafka, "-d", classes, str(source)], check=True, timeout=120)
        archived = brokers.quick(release, "java")
        run = ["java", *archived, "-Dlog4j2.level=OFF", "-cp", f"{kafka}:{classes}", "ErrorResponses"]
        text = "".join(f"{line}\n" for line in asked).encode()
        return subprocess.run(run, input=text, stdout=subprocess.PIPE, check=True, timeout=120).stdout


def main(argv: list[str]) -> int:
    """Ask both releases, write one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=HERE, metavar="DIR", help="folder of the schema corpora")
    parser.add_argument("--out", type=Path, default=HERE / "refusals.jsonl.gz", metavar="FILE")
    options = parser.parse_args(argv)
    lines = [answers(requests(options.corpus / name), release) for name, release in CORPORA.items()]
    with options.out.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(b"".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
