#!/usr/bin/env python3
"""Compare ottla with other clients and with what the machine allows on one broker, and its codecs with others'.

    .venv/bin/python benches/python/run.py [--only WORDS] [--repeats N] [--broker real|embedded] [--quick]

Each measurement is a separate process. Repeats are interleaved, so that a busy moment of the machine affects all alike.
The tables go to the terminal, and with plots and every measurement as JSON to benches/out/. See benches/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.metadata
import json
import math
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

import codec  # noqa: E402
import decode  # noqa: E402
import plots  # noqa: E402
import report  # noqa: E402
import wide  # noqa: E402
from broker import KAFKA, PASSWORD, USER, Broker, embedded_broker, real_broker, warm  # noqa: E402
from clients import compiled, franz, krafka  # noqa: E402
from measurement import Job, events, topic_names  # noqa: E402
from scenarios import (  # noqa: E402
    GOALS,
    SCALING,
    SCENARIOS,
    SPARK_GOALS,
    SPARK_SCENARIOS,
    TLS_GOALS,
    TLS_SCENARIOS,
    Protocol,
    Scenario,
    Way,
)
from shapes import SHAPE_GOALS, SHAPES  # noqa: E402
from spark_bench import SparkBench  # noqa: E402
from tqdm import tqdm  # noqa: E402

MEASUREMENT_TIMEOUT = 90.0
MOST_PARTITIONS = 12_000
MOST_STOLEN, TRIES = 0.05, 3
"""A measurement during which other virtual machines took a larger part of the processor is repeated, so often."""
LASTS = """
approximate times, with 5 repeats on 2 cores:
  consume-100B, consume-1KB      2.5 minutes each
  consume-lz4-100B and its like  1.5 minutes each, of 4
  records-100B, async-100B       1 minute each
  send-100B                      1.5 minutes
  produce-100B, produce-1KB      4 minutes each
  latency                        5 minutes
  rebalance                      13 minutes
  codec                          5 minutes
  decoding                       half a minute
  spark                          10 minutes
  shape                          35 minutes; only when asked for: --only shape
  scaling                        15 minutes; only when asked for: --only scaling
  --tls                          9 minutes
  --other ../before              15 minutes for all of our ways; consume-100B 1.5

old against new:
  git worktree add ../before main && make -C ../before setup
  .venv/bin/python benches/python/run.py --other ../before --only produce-100B
"""


class Bench:
    """Scenarios on one broker.

    Args:
        broker: That runs.
        spark: What measures Spark there.
        shrink: Records and budgets are divided by it, to see whether all runs.
    """

    def __init__(self, broker: Broker, spark: SparkBench, shrink: int) -> None:
        self._broker, self._spark, self._shrink = broker, spark, shrink
        self._filled = list[str]()
        self._partitions: dict[str, tuple[int, int]] = {}
        self._made = 0

    def run(self, scenarios: list[Scenario], repeats: int) -> list[report.Row]:
        """Every way of every scenario, `repeats` times.

        The ways of one scenario are measured in turn, every second time in reverse, so that none always goes first.
        What goes ahead, as the scenario says, does not count.
        """
        rows = [report.Row(s, w) for s in scenarios for w in s.ways]
        total = sum(rounds_ahead(r) + repeats for r in rows)
        with tqdm(total=total, desc="measure") as progress:
            for scenario in scenarios:
                self._broker.use_cores(scenario.cores[1])
                its = [r for r in rows if r.scenario == scenario]
                for repeat in range(-max(map(rounds_ahead, its)), repeats):
                    for row in its if repeat % 2 else its[::-1]:
                        if -repeat > rounds_ahead(row):
                            continue
                        progress.set_postfix_str(f"{scenario.name}: {row.way.name}")
                        if row.failure is None:
                            self._take(row, counts=repeat >= 0)
                        progress.update()
        return rows

    def _take(self, row: report.Row, *, counts: bool) -> None:
        """One measurement. A way that failed is not tried again; its error is reported at the end."""
        tries = list[report.Measured]()
        try:
            while len(tries) < TRIES and (counts or not tries):
                tries.append(self._measure(row.scenario, row.way))
                if tries[-1]["stolen"] <= MOST_STOLEN:
                    break
        except (subprocess.SubprocessError, RuntimeError) as error:
            row.failure = str(error)
        else:
            if counts:
                row.repeats.append(min(tries, key=lambda m: m["stolen"]))

    def _measure(self, scenario: Scenario, way: Way) -> report.Measured:
        if scenario.spark:
            begin = stolen_time()
            measured = self._spark.measure(dataclasses.replace(scenario, records=self._records(scenario)), way)
            return {**measured, "stolen": stolen_since(begin)}
        if scenario.kind == "consume":
            return self._work(scenario, way, self._topic(scenario))
        if scenario.topics > 1:
            return self._work(scenario, way, self._topics_to_write(scenario))
        self._made += 1
        if scenario.kind == "rebalance":
            topic, group = self._topic_of_members(scenario), f"members-{self._made}"
            self._broker.commit_beginnings(group, topic, scenario.partitions)
            return self._work(scenario, way, topic, group)
        topic = self._broker.create(f"{scenario.kind}-{self._made}", scenario.partitions)
        try:
            warm(self._broker.bootstrap, topic, scenario.partitions)
            return self._work(scenario, way, topic)
        finally:
            self._broker.delete(topic)

    def _topic(self, scenario: Scenario) -> str:
        """The scenario's topic, filled unless another scenario's is the same."""
        records, partitions, topics = self._records(scenario), scenario.partitions, scenario.topics
        of = (scenario.size, records, scenario.codec, scenario.batch, partitions, topics)
        topic = "-".join(map(str, (*of, scenario.content, scenario.aborted)))
        if topic not in self._filled:
            self._make_space(topics * partitions)
            some = events(scenario.size) if scenario.content == "events" else wide.values(scenario.content)
            if scenario.aborted:
                self._broker.fill_by_transactions(topic, partitions, some, records, scenario.aborted)
            else:
                self._broker.fill(topic, partitions, some, records, scenario.codec, scenario.batch, topics)
            self._filled.append(topic)
            self._partitions[topic] = (topics, partitions)
        return topic

    def _topics_to_write(self, scenario: Scenario) -> str:
        """The scenario's topics, which all its measurements write to: the broker takes seconds to create a thousand."""
        topic = f"{scenario.kind}-{scenario.topics}-{scenario.partitions}"
        if topic not in self._filled:
            self._make_space(scenario.topics * scenario.partitions)
            self._broker.create_all(topic_names(topic, scenario.topics), scenario.partitions)
            warm(self._broker.bootstrap, topic, scenario.partitions, topics=scenario.topics)
            self._filled.append(topic)
            self._partitions[topic] = (scenario.topics, scenario.partitions)
        return topic

    def _make_space(self, partitions: int) -> None:
        """Delete topics of earlier scenarios before the broker gets many more partitions: its index files are mapped
        into its memory, of which the kernel allows 65,530 pieces."""
        if sum(map(math.prod, self._partitions.values())) + partitions < MOST_PARTITIONS:
            return
        for topic, (topics, _) in self._partitions.items():
            self._broker.delete_all(topic_names(topic, topics))
            self._filled.remove(topic)
        self._partitions.clear()

    def _topic_of_members(self, scenario: Scenario) -> str:
        """A topic with one record in each partition."""
        topic = f"members-{scenario.partitions}"
        if topic not in self._filled:
            self._broker.create(topic, scenario.partitions)
            warm(self._broker.bootstrap, topic, scenario.partitions, records=1)
            self._filled.append(topic)
        return topic

    def _security(self, protocol: Protocol, way: Way) -> dict[str, str]:
        """What a client needs for TLS and SASL, by the names that it has for that."""
        if protocol == "PLAINTEXT":
            return {}
        needs = {"security.protocol": protocol, "ssl.ca.location": self._broker.ca}
        if protocol == "SASL_SSL":
            needs |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
        if way.client == "confluent-kafka":
            return needs
        needs = {name.replace(".", "_"): value for name, value in needs.items()}
        if way.client == "aiokafka":
            own = {"ssl_ca_location": "ssl_cafile", "sasl_username": "sasl_plain_username"}
            own["sasl_password"] = "sasl_plain_password"
            needs = {own.get(name, name): value for name, value in needs.items()}
        return needs

    def _records(self, scenario: Scenario) -> int:
        return max(1, scenario.records // self._shrink)

    def _work(self, scenario: Scenario, way: Way, topic: str, group: str = "") -> report.Measured:
        protocol = scenario.protocol or self._broker.protocol
        job = Job(
            self._broker.address(protocol),
            topic,
            scenario.partitions,
            self._records(scenario),
            scenario.size,
            scenario.budget / self._shrink,
            scenario.codec,
            group,
            {**dict(way.properties), **self._security(protocol, way)},
            scenario.topics,
            scenario.content,
            scenario.aborted,
        )
        order = {"way": way.function, "cores": scenario.cores[0], "job": dataclasses.asdict(job)}
        environment = {**os.environ, "PYTHONPATH": way.python_path} if way.python_path else None
        begin = stolen_time()
        done = subprocess.run(
            [sys.executable, HERE / "worker.py", json.dumps(order)],
            capture_output=True,
            text=True,
            timeout=MEASUREMENT_TIMEOUT,
            check=False,
            env=environment,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        measured: report.Measured = json.loads(done.stdout)
        if not str(measured["build"]).startswith(way.python_path):
            raise RuntimeError(f"measured {measured['build']}, not the build in {way.python_path}")
        return {**measured, "stolen": stolen_since(begin)}


def rounds_ahead(row: report.Row) -> int:
    """How many measurements of a row do not count."""
    ahead = row.scenario.ahead
    return ahead if ahead > 1 or row.way.role != "peer" else 0


def stolen_time() -> tuple[float, float]:
    """Processor time that other virtual machines took from this one, and time that passed on all its cores; seconds."""
    total = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu "))
    return int(total.split()[8]) / os.sysconf("SC_CLK_TCK"), time.monotonic() * (os.cpu_count() or 1)


def stolen_since(begin: tuple[float, float]) -> float:
    """The part of all processor time that other virtual machines took since a `stolen_time`."""
    taken, passed = (now - then for now, then in zip(stolen_time(), begin, strict=True))
    return taken / passed


def says(*command: str, folder: Path = ROOT) -> str:
    """What a command prints in a folder."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip()


def environment(broker: str) -> dict[str, Any]:
    """The versions and the machine of the figures."""
    import ottla

    def first(pattern: str, text: str) -> str:
        found = re.search(pattern, text)
        return found[1] if found else "unknown"

    libraries = ("confluent-kafka", "aiokafka", "kafka-python", "kafkarrow", "cramjam", "pyarrow", "pyspark")
    return {
        "broker": broker,
        "cpu": first(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()),
        "cores": os.cpu_count(),
        "memory": first(r"MemTotal:\s*(.*)", Path("/proc/meminfo").read_text()),
        "load": os.getloadavg()[0],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": first(r'version "([^"]*)"', says("java", "-version")) if shutil.which("java") else "none",
        "ottla": ottla.__version__,
        "commit": says("git", "describe", "--always", "--dirty"),
        **{name: importlib.metadata.version(name) for name in libraries},
        "franz-go": franz.version(),
        "krafka": first(r'name = "krafka"\nversion = "([^"]*)"', (krafka.CRATE / "Cargo.lock").read_text()),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def chosen(scenarios: tuple[Scenario, ...], words: list[str], clients: list[str], other: Path | None) -> list[Scenario]:
    """The scenarios whose names, with those of their ways, hold all words; with these ways only.

    With another build only our ways stay, unless clients are named; each is followed by the same way of that build.
    """
    if other and not clients:
        clients = ["ottla"]
    out = []
    for scenario in scenarios:
        ways = [w for w in scenario.ways if all(word in f"{scenario.name} {w.name}" for word in words)]
        ways = [w for w in ways if not clients or any(c in w.name for c in clients)]
        if other:
            ways = [each for way in ways for each in (way, *of_other_build(way, other))]
        if ways:
            out.append(dataclasses.replace(scenario, ways=tuple(ways)))
    return out


def of_other_build(way: Way, other: Path) -> list[Way]:
    """The same way of the build in another checkout; none for a peer or a limit."""
    return [dataclasses.replace(way, client="other", python_path=f"{other}/python")] if way.role == "ours" else []


def built_checkout(text: str) -> Path:
    """A checkout of ottla that holds its release build, as an argument of the command line."""
    path = Path(text).resolve()
    if not any(path.glob("python/ottla/_ottla*.so")):
        raise argparse.ArgumentTypeError(f"{path}/python/ottla holds no compiled extension: run `make setup` in {path}")
    if (path / ".venv" / "gate.stamp").exists():
        raise argparse.ArgumentTypeError(
            f"{path} holds the build of `make test`, which is slower: run `make setup` in {path}"
        )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=LASTS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        default="",
        help="only names with all of these words, such as codec, decoding, consume-100B, latency, rebalance, spark",
    )
    parser.add_argument(
        "--clients", default="", help="only these, separated by commas: ottla,socket,'confluent-kafka consume, tuned'"
    )
    parser.add_argument(
        "--other",
        type=built_checkout,
        metavar="CHECKOUT",
        help="measure ottla of another built checkout in turn with this one, and print a table of the ratios",
    )
    parser.add_argument("--tls", action="store_true", help="over TLS 1.3, with the scenarios and goals of that")
    parser.add_argument("--broker", choices=["real", "embedded"], help="default: real, if Java and Maven are installed")
    parser.add_argument(
        "--quick", action="store_true", help="one short repeat, to check that all runs; not for figures"
    )
    parser.add_argument("--repeats", type=int, help="repeats of each measurement; default 5, for scaling 3")
    parser.add_argument("--out", type=Path, default=ROOT / "benches" / "out")
    args = parser.parse_args()
    if not args.quick:
        try:
            built_checkout(str(ROOT))
        except argparse.ArgumentTypeError as error:
            parser.error(str(error))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # and the broker with it
    words = args.only.split()
    of_clients_alone = args.clients or args.other or args.tls
    if args.tls and args.broker == "embedded":
        parser.error("--tls is measured on real Kafka")
    if "shape" in words and args.broker == "embedded":
        parser.error("shapes are measured on real Kafka")
    rows = [] if of_clients_alone else [r for r in codec.ROWS if all(w in f"codec {r}" for w in words)]
    decoding = not of_clients_alone and all(w in "decoding" for w in words)
    known = SCALING if "scaling" in words else TLS_SCENARIOS if args.tls else SHAPES if "shape" in words else SCENARIOS
    if known is SCENARIOS and not args.other and broker_kind(args) == "real":
        known = (*known, *SPARK_SCENARIOS)
    clients = [c for c in re.split(r",(?! )", args.clients) if c]
    scenarios = chosen(known, words, clients, args.other)
    if not rows and not decoding and not scenarios:
        parser.error(f"no name has the words {args.only!r}")
    args.out.mkdir(parents=True, exist_ok=True)
    if rows:
        run_codecs(rows, args)
    if decoding:
        run_decoding(args)
    if scenarios:
        run_clients(scenarios, args)


def run_codecs(rows: list[str], args: argparse.Namespace) -> None:
    """The codecs: JSON, table and plot."""
    about = environment("none")
    figures = codec.run(rows, 1, 20) if args.quick else codec.run(rows, args.repeats or 5)
    stem = args.out / "codec"
    measurements = [dataclasses.asdict(f) for f in figures]
    stem.with_suffix(".json").write_text(json.dumps({"environment": about, "measurements": measurements}, indent=1))
    table = codec.lines(figures)
    print(codec.text(about, table))
    codec.plot(about, table, stem.with_suffix(".png"))
    print(f"\n{stem}.json\n{stem}.png\n")


def run_decoding(args: argparse.Namespace) -> None:
    """Values to typed columns: JSON and text."""
    about = environment("none")
    found = decode.run(1 if args.quick else args.repeats or decode.REPEATS)
    path = args.out / "decode.json"
    path.write_text(json.dumps({"environment": about, "nanoseconds": found.nanoseconds}, indent=1))
    print(f"{found.text}\n\n{path}\n")


def says_command() -> str:
    """The command of this run, without the folder for its results, which is of this machine."""
    given = iter(sys.argv[1:])
    kept: list[str] = []
    for argument in given:
        if argument == "--out":
            next(given, None)
        elif not argument.startswith("--out="):
            kept.append(argument)
    return " ".join(["benches/python/run.py", *map(shlex.quote, kept)])


def broker_kind(args: argparse.Namespace) -> str:
    """Which broker is measured on: `real` or `embedded`."""
    can_be_real = bool(shutil.which("java") and shutil.which("mvn"))
    return args.broker or ("real" if can_be_real or args.tls else "embedded")


def run_clients(scenarios: list[Scenario], args: argparse.Namespace) -> None:
    """The clients on a broker: JSON, tables and plots."""
    kind = broker_kind(args)
    repeats = 1 if args.quick else args.repeats or (3 if scenarios[0].point else 5)
    if any(w.client == "krafka" for s in scenarios for w in s.ways):
        krafka.build()
    if any(w.client == "compiled" for s in scenarios for w in s.ways):
        compiled.build()
    if any(w.client == "franz-go" for s in scenarios for w in s.ways):
        franz.build()

    tls = args.tls or any(s.protocol for s in scenarios)
    default: Protocol = "SSL" if args.tls else "PLAINTEXT"
    about = environment(f"Apache Kafka {KAFKA}{', TLS' * args.tls}" if kind == "real" else "embedded")
    if args.other:
        about["other"] = says("git", "describe", "--always", "--dirty", folder=args.other)
    with (
        real_broker(default, tls=tls) if kind == "real" else embedded_broker() as broker,
        contextlib.closing(SparkBench(broker)) as spark,
    ):
        rows = Bench(broker, spark, 10 if args.quick else 1).run(scenarios, repeats)

    failed, rows = [r for r in rows if r.failure], [r for r in rows if not r.failure]
    reached = report.results(TLS_GOALS if args.tls else [*GOALS, *SPARK_GOALS, *SHAPE_GOALS], rows)
    tables = report.text(about, rows)
    goals = report.goals_text(reached)
    compared = report.comparison(rows)
    shape = any(scenarios[0].name == known.name for known in SHAPES)
    name = "scaling" if scenarios[0].point else "tls" if args.tls else "shapes" if shape else "clients"
    measurements = [
        {
            "scenario": r.scenario.name,
            "way": r.way.name,
            "role": r.way.role,
            "size": r.scenario.size,
            "settings": report.settings(r),
            "kind": r.scenario.kind,
            "repeats": r.repeats,
        }
        for r in rows
    ]
    about |= {"command": says_command(), "load at the end": os.getloadavg()[0]}
    data = {"environment": about, "measurements": measurements, "goals": [report.plain(r) for r in reached]}
    (args.out / f"{name}.json").write_text(json.dumps(data, indent=1))
    (args.out / f"{name}.txt").write_text(f"{tables}\n")
    if reached:
        (args.out / ("goals-tls.md" if args.tls else "goals.md")).write_text(f"{goals}\n")
    print(tables)
    if reached:
        print(f"\n{goals}\n\n{sum(r.met for r in reached)} of {len(reached)} goals met")
    if compared:
        (args.out / "other.md").write_text(f"{compared}\n")
        print(f"\n{compared}")
    paths = [args.out / f"{name}.json", args.out / f"{name}.txt", *plots.save(about, rows, args.out)]
    print("\n", *paths, sep="\n")
    if failed:
        raise SystemExit("\n".join(f"FAILED {r.scenario.name}: {r.way.name}: {r.failure}" for r in failed))


if __name__ == "__main__":
    main()
