"""Runs a suite, and compares it with what may fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Seconds for one test, and for all of them.
ONE_TEST, ALL_TESTS = 120, 3000
# pytest's statuses after it ran all tests, of which some may have failed.
ENDED = (0, 1)
# The reason of a test that passes or fails by chance.
SOMETIMES = "sometimes: "


@dataclass(frozen=True)
class Suite:
    """A suite: the package that it tests, patterns of its files, and the plugin that puts ottla below that package."""

    package: str
    files: tuple[str, ...]
    plugin: str
    arguments: tuple[str, ...] = ()


def _faststream(broker: str) -> tuple[str, ...]:
    folders = (f"tests/brokers/{broker}", f"tests/opentelemetry/{broker}", f"tests/prometheus/{broker}")
    return tuple(f"{folder}/**/test_*.py" for folder in folders)


def _opentelemetry(client: str, plugin: str) -> Suite:
    package = f"opentelemetry-instrumentation-{client}"
    return Suite(package, (f"instrumentation/{package}/tests/test_*.py",), plugin, _FUNCTION_LOOPS)


# pytest-asyncio warns without it, and the suite makes warnings errors.
_FUNCTION_LOOPS = ("-o", "asyncio_default_fixture_loop_scope=function")
# FastStream's settings leave out tests that it calls slow.
_SLOW_ONES_TOO = ("-m", "")
# What is left out has no client in any test.
_QUIX = tuple(
    f"tests/test_quixstreams/{files}"
    for files in (
        "test_*.py",
        "test_dataframe/**/test_[!l]*.py",
        "test_internal_consumer/test_*.py",
        "test_kafka/test_*.py",
        "test_models/**/test_*.py",
        "test_sources/**/test_*.py",
        "test_state/**/test_*.py",
    )
)
_CLIENTS = ("admin", "consumer", "pep492", "producer", "sasl", "transactional_consumer", "transactional_producer")
SUITES = {
    "confluent": Suite("confluent-kafka", ("tests/test_*.py",), "ottla_below_confluent"),
    "registry": Suite(
        "confluent-kafka",
        ("tests/integration/schema_registry/**/test_*.py",),
        "registry_below_confluent",
        (*_FUNCTION_LOOPS, "-o", "asyncio_mode=auto"),
    ),
    "confluent-integration": Suite(
        "confluent-kafka",
        tuple(f"tests/integration/{folder}/test_*.py" for folder in ("admin", "consumer", "producer", "serialization")),
        "ottla_below_confluent_cluster",
    ),
    "confluent-share": Suite(
        "confluent-kafka",
        tuple(f"tests/integration/share_consumer{kind}/test_*.py" for kind in ("", "_sasl")),
        "ottla_below_confluent_cluster",
    ),
    "aiokafka": Suite(
        "aiokafka", tuple(f"tests/test_{name}.py" for name in _CLIENTS), "ottla_below_aiokafka", _FUNCTION_LOOPS
    ),
    "faststream-kafka": Suite("faststream", _faststream("kafka"), "ottla_below_faststream_kafka", _SLOW_ONES_TOO),
    "faststream-confluent": Suite(
        "faststream", _faststream("confluent"), "ottla_below_faststream_confluent", _SLOW_ONES_TOO
    ),
    "kombu": Suite("kombu", ("t/integration/test_kafka.py",), "ottla_below_kombu", ("-E", "kafka")),
    "daft": Suite(
        "daft", ("tests/integration/io/test_kafka_integration.py",), "ottla_below_daft", ("-m", "integration")
    ),
    "dlt": Suite("dlt", ("tests/kafka/test_kafka.py",), "embedded_below_dlt"),
    "bytewax": Suite("bytewax", ("pytests/connectors/test_kafka.py",), "ottla_below_bytewax"),
    "quix": Suite("quixstreams", _QUIX, "ottla_below_quix", ("-o", "log_cli=false")),
    "ray": Suite(
        "ray",
        ("python/ray/data/tests/datasource/test_kafka*.py",),
        "ottla_below_ray",
        # Its conftest.py needs packages of Ray's tests, which are not in its wheel.
        ("--noconftest", "--import-mode=importlib"),
    ),
    "opentelemetry-confluent": _opentelemetry("confluent-kafka", "ottla_below_confluent"),
    "opentelemetry-aiokafka": _opentelemetry("aiokafka", "ottla_below_aiokafka_without_broker"),
}


def run(name: str, tree: Path) -> int:
    """Run a suite, print its table, and return the status of the command."""
    suite = SUITES[name]
    files = sorted(str(path.relative_to(tree)) for pattern in suite.files for path in tree.glob(pattern))
    if not files:
        print(f"{tree} has no {' '.join(suite.files)}: is it a checkout of {suite.package}?", file=sys.stderr)
        return 2
    status, outcomes = outcomes_of(suite, tree, files)
    allowed = allowlist((HERE / f"{name}.txt").read_text())
    counts = Counter(outcomes.values())
    print(f"| suite | {suite.package} | tests | passed | skipped | failed | allowed to fail |")
    print("|---|---|---|---|---|---|---|")
    print(
        f"| {name} | {version(suite.package)} | {len(outcomes)} | {counts['passed']} | {counts['skipped']} | "
        f"{counts['failed']} | {len(allowed)} |"
    )
    wrong = problems(outcomes, allowed)
    if status not in ENDED:
        wrong.insert(0, f"pytest ended with status {status}: some tests did not run")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def outcomes_of(suite: Suite, tree: Path, files: list[str]) -> tuple[int, dict[str, str]]:
    """Run pytest: its status, and by test "passed", "skipped" or "failed"."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        paths = [str(HERE / "plugin"), str(ROOT / "python")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OTTLA_JUDGE_REPORT": str(report)}
        # -P: the tree's own package is not to be found before the one that is installed.
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", suite.plugin, "-o", f"cache_dir={folder}/cache"]
        command += [f"--timeout={ONE_TEST}", *suite.arguments, *files]
        # A shell lets what it runs in the background ignore SIGINT, and tests interrupt calls by it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ended = subprocess.run(command, cwd=tree, env=environment, timeout=ALL_TESTS, check=False)
        return ended.returncode, json.loads(report.read_text())


def allowlist(text: str) -> dict[str, str]:
    """By test that may fail, the reason: lines are a test's id, two spaces, a hash and the reason.

    The reason of a test that also passes begins with `sometimes: `.
    """
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("  # ", 1) for line in lines)


def problems(outcomes: dict[str, str], allowed: dict[str, str]) -> list[str]:
    """What makes a run red."""
    failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
    return [
        *(f"failed: {test}" for test in sorted(failed - allowed.keys())),
        *(
            f"passes, take it off the list: {test}"
            for test in sorted(t for t, why in allowed.items() if outcomes.get(t) == "passed" and SOMETIMES not in why)
        ),
        *(f"does not exist, take it off the list: {test}" for test in sorted(allowed.keys() - outcomes.keys())),
    ]
