"""A copied folder of a KRaft node is what Kafka's tool writes for that node."""

from __future__ import annotations

import functools
import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.brokers import brokers
from tests.brokers.formats import format_folder
from tests.brokers.jars import class_path, fetch, sh

if TYPE_CHECKING:
    from pathlib import Path

SCRAM = ["--add-scram", "SCRAM-SHA-256=[name=alice,password=alice-secret,salt=bmV2ZXIgcmFuZG9t]"]
FIXED = b"\0" * 8


def tool(release: str, folder: Path, node: int, *asked: str) -> functools.partial[bytes]:
    """Kafka's tool, which formats the folder of one of two nodes."""
    conf = folder.with_suffix(".properties")
    conf.write_text(
        f"log.dirs={folder}\nprocess.roles=broker,controller\nnode.id={node}\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=1@127.0.0.1:21071,2@127.0.0.1:21072\n"
        f"listeners=PLAINTEXT://127.0.0.1:2100{node},CONTROLLER://127.0.0.1:2107{node}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
    )
    java = ["java", *brokers.quick(release, "java"), "-cp", class_path(fetch(release))]
    command = ["kafka.tools.StorageTool", "format", "-t", brokers.CLUSTER_ID, "-c", conf]
    return functools.partial(sh, *java, *command, *asked)


def content(folder: Path, begun: float) -> dict[str, bytes]:
    """Each file, but for the moment at which it was written, the checksums over it, and the folder's random id."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_dir():
            continue
        data = path.read_bytes()
        if path.suffix == ".checkpoint":
            data = timeless(data, begun)
        elif path.name == "meta.properties":
            lines = re.sub(rb"^directory\.id=(?!-)[\w-]{22}$", b"directory.id=", data, flags=re.MULTILINE).splitlines()
            data = b"\n".join(sorted(line for line in lines if not line.startswith(b"#")))
        found[str(path.relative_to(folder))] = data
    return found


def timeless(data: bytes, begun: float) -> bytes:
    """The batches of a snapshot without checksums and without the times of this test."""
    at, out = 0, bytearray(data)
    while at < len(data):
        out[at + 17 : at + 21] = FIXED[:4]
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    for moment in (begun, time.time()):
        upper = (int(moment * 1000)).to_bytes(8, "big")[:5]
        out = bytearray(re.sub(re.escape(upper) + rb"[\s\S]{3}", FIXED, bytes(out)))
    return bytes(out)


@pytest.mark.needs("java", "mvn")
@pytest.mark.parametrize("release", ["4.4.0", "3.9.1"])
@pytest.mark.parametrize("asked", [[], SCRAM], ids=["plain", "scram"])
def test_a_copy_is_what_the_tool_writes(release: str, asked: list[str], tmp_path: Path) -> None:
    begun, cache = time.time(), tmp_path / "cache"
    for node in (1, 2):
        folder = tmp_path / f"node{node}"
        format_folder(folder, node, cache, [release, *asked], {}, tool(release, folder, node, *asked))
    assert sum(path.is_dir() for path in cache.iterdir()) == 1
    written = tmp_path / "written"
    tool(release, written, 2, *asked)()
    copied = content(tmp_path / "node2", begun)
    assert copied == content(written, begun)
    assert b"node.id=2" in copied["meta.properties"]
    assert content(tmp_path / "node1", begun) != copied


def test_what_matters_to_the_tool_has_a_folder_of_its_own_and_places_are_left_to_it(tmp_path: Path) -> None:
    asked: list[dict[str, str]] = [{}, {"num.partitions": "3"}, {"unstable.api.versions.enable": "true"}]
    asked.append({"log.dirs": "elsewhere"})
    formatted = []
    for number, config in enumerate(asked):
        folder = tmp_path / f"node{number}"

        def write(folder: Path = folder, number: int = number) -> None:
            formatted.append(number)
            folder.mkdir(exist_ok=True)
            (folder / "meta.properties").write_text("node.id=1\n")

        for _ in range(2):
            format_folder(folder, number, tmp_path / "cache", ["4.4.0"], config, write)
    assert formatted == [0, 2, 3, 3]
    assert (tmp_path / "node1" / "meta.properties").read_text() == "node.id=1\n"
