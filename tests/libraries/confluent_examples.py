"""Run confluent-kafka's examples on librdkafka and on ottla: `python -m tests.libraries.confluent_examples --tree FOLDER`.

FOLDER is a checkout of confluent-kafka's repository, of which nothing is committed here. Each side has an embedded broker
and a registry of its own. Examples run unchanged; those without an end get Ctrl-C once they have printed what is
expected. The command prints a line for each example, and a diff where the sides differ.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import ottla
from ottla.testing import Broker, Registry
from tests.libraries.environments import ROOT, python_of

if TYPE_CHECKING:
    from collections.abc import Sequence

# Seconds until an example is ended, which then counts as a failure.
PATIENCE = 120
# Logs of both, and the lines of a traceback that name files.
NOT_PRINTED = re.compile(r"%\d\||INFO:ottla|[\w-]+-\d+: topic |  +")
ANSWERS = "Ada\nLondon\n7\ngreen\n"
AVRO = ["-b", "{servers}", "-s", "{registry}", "-t"]


@dataclass(frozen=True)
class Example:
    """A run of an example.

    Attributes:
        name: The file, without its ending.
        arguments: Its arguments.
        stdin: What is typed.
        until: What it prints before it gets Ctrl-C; without it, it ends by itself, or as its input ends.
        is_ordered: Whether the order of its lines counts.
    """

    name: str
    arguments: Sequence[str]
    stdin: str = ""
    until: str = ""
    is_ordered: bool = True


def admin(*arguments: str) -> Example:
    return Example("adminapi", ["{servers}", *arguments], is_ordered=False)


EXAMPLES = [
    Example("producer", ["{servers}", "plain"], "one\ntwo\nthree\n", is_ordered=False),
    Example("consumer", ["{servers}", "g", "plain"], until="three", is_ordered=False),
    Example("get_watermark_offsets", ["{servers}", "g", "plain"], is_ordered=False),
    Example("eos_transactions", ["-b", "{servers}", "-t", "plain", "-o", "out", "-g", "eos"], is_ordered=False),
    Example("context_manager_example", ["{servers}"], is_ordered=False),
    Example("adminapi_logger", ["{servers}"]),
    Example("asyncio_example", ["{servers}", "async"], until="Consumed: b.testvalue9", is_ordered=False),
    Example("asyncio_avro_producer", ["-b", "{servers}", "-s", "{registry}", "-t", "async-avro"]),
    Example("avro_producer", [*AVRO, "avro"], ANSWERS, until="successfully produced"),
    Example("avro_consumer", [*AVRO, "avro", "-g", "avro"], until="favorite_color"),
    Example("json_producer", [*AVRO, "json"], ANSWERS, until="successfully produced"),
    Example("json_consumer", [*AVRO, "json", "-g", "json"], until="favorite_color"),
    Example("protobuf_producer", [*AVRO, "protobuf"], ANSWERS, until="successfully produced"),
    Example("protobuf_consumer", [*AVRO, "protobuf", "-g", "protobuf"], until="favorite_color"),
    admin("create_topics", "made", "other"),
    admin("create_topics", "made"),
    admin("create_partitions", "made", "3", "other", "2"),
    admin("describe_configs", "topic", "made"),
    admin("incremental_alter_configs", "topic", "made", "retention.ms=SET:1234"),
    admin("alter_configs", "topic", "made", "retention.ms=4321"),
    admin("list", "all"),
    admin("list_consumer_groups", "-states", "empty"),
    admin("describe_consumer_groups", "1", "g", "none"),
    admin("describe_topics", "1", "made", "none"),
    admin("describe_cluster", "1"),
    admin("list_consumer_group_offsets", "eos", "plain", "0"),
    admin("alter_consumer_group_offsets", "eos", "plain", "0", "1"),
    admin("list_offsets", "READ_COMMITTED", "plain", "0", "EARLIEST"),
    admin("list_offsets", "READ_COMMITTED", "plain", "0", "LATEST"),
    admin("create_acls", "TOPIC", "made", "LITERAL", "User:ada", "127.0.0.1", "READ", "ALLOW"),
    admin("describe_acls", "TOPIC", "made", "ANY", "User:ada", "127.0.0.1", "ANY", "ANY"),
    admin("delete_acls", "TOPIC", "made", "ANY", "User:ada", "127.0.0.1", "ANY", "ANY"),
    admin("alter_user_scram_credentials", "UPSERT", "ada", "SCRAM_SHA_256", "4096", "secret", "salt"),
    admin("describe_user_scram_credentials", "ada"),
    admin("delete_records", "plain", "0", "1"),
    admin("elect_leaders", "PREFERRED", "plain", "0"),
    admin("delete_consumer_groups", "eos", "none"),
    admin("delete_topics", "made", "none"),
    Example("share_consumer", ["{servers}", "share", "plain"], until="three", is_ordered=False),
    Example("share_consumer_commit_sync", ["{servers}", "share-sync", "plain"], until="three", is_ordered=False),
    Example("share_consumer_commit_async", ["{servers}", "share-async", "plain"], until="three", is_ordered=False),
]


def run(example: Example, folder: Path, side: str, known: dict[str, str]) -> list[str]:
    """What an example prints on a side, and how it ended."""
    seam = ["-m", "ottla.compat"] if side == "ours" else []
    arguments = [argument.format(**known) for argument in example.arguments]
    command = [str(python_of("services")), "-u", *seam, f"{example.name}.py", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines: list[str] = []
    output = process.stdout
    reader = threading.Thread(target=lambda: lines.extend(iter(output.readline, "")), daemon=True)
    reader.start()
    process.stdin.write(example.stdin)
    process.stdin.flush()
    if not example.until:
        process.stdin.close()
    deadline = time.monotonic() + PATIENCE
    while example.until and process.poll() is None and not re.search(example.until, "".join(lines)):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if example.until:
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.stdin.close()
    try:
        process.wait(max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        lines.append("did not end\n")
        process.kill()
        process.wait()
    reader.join(5)
    return [*(shown(line) for line in lines if not NOT_PRINTED.match(line)), f"status {process.returncode}"]


def shown(line: str) -> str:
    """A line without what differs from run to run."""
    line = re.sub(r"127\.0\.0\.1:\d+|'?port'?[=: ]+\d+", "ADDRESS", line.rstrip())
    line = re.sub(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27,}|\d{13}", "ID", line)
    return re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+", "TIME", line)


def outcomes(folder: Path, side: str, examples: list[Example]) -> list[list[str]]:
    """What the examples print on a side, in their order: later ones read what earlier ones wrote."""
    with Broker(topics={"plain": 1, "out": 1}, super_users=["ANONYMOUS"]) as broker, Registry() as registry:
        servers = broker.bootstrap_servers
        with ottla.Admin(servers) as client:
            for group in ("share", "share-sync", "share-async"):
                changes = {"share.auto.offset.reset": "earliest"}
                client.incremental_alter_configs({ottla.ConfigResource("GROUP", group): changes})
        known = {"servers": servers, "registry": registry.url}
        return [run(example, folder, side, known) for example in examples]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, required=True, help="a checkout of confluent-kafka's repository")
    parser.add_argument("names", nargs="*", help="the examples, all without it")
    options = parser.parse_args()
    folder = options.tree / "examples"
    if not folder.is_dir():
        print(f"{folder} does not exist: is {options.tree} a checkout of confluent-kafka?", file=sys.stderr)
        return 2
    examples = [each for each in EXAMPLES if not options.names or each.name in options.names]
    theirs, ours = (outcomes(folder, side, examples) for side in ("theirs", "ours"))
    different = 0
    for example, left, right in zip(examples, theirs, ours, strict=True):
        pair = (left, right) if example.is_ordered else (sorted(left), sorted(right))
        diff = list(difflib.unified_diff(*pair, "librdkafka", "ottla", lineterm="", n=0))
        print("differs" if diff else "same", example.name, *example.arguments, f"({len(left)} lines)", flush=True)
        print("\n".join(diff), end="\n" if diff else "")
        different += bool(diff)
    print(f"{len(examples) - different} of {len(examples)} print the same")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
