"""Formatted folders of KRaft nodes, which Kafka's tool writes once and of which every later node gets a copy."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import re
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Properties that the tool reads into what it writes, by how their names begin.
WRITTEN = ("unstable.", "inter.broker.protocol.version")
# Properties that say where it writes, or that this folder's clusters do not set: the tool itself has to see them.
PLACES = ("log.dir", "metadata.log.dir", "process.roles", "node.id", "controller.")


def format_folder(
    folder: Path,
    node: int,
    cache: Path,
    asked: Sequence[str],
    config: Mapping[str, str],
    tool: Callable[[], None],
) -> None:
    """Format the folder of a node, unless it is formatted.

    Args:
        folder: The node's only log folder.
        node: Its id.
        cache: The folder of formatted folders.
        asked: The release and the arguments of the tool, without those that name the node's files.
        config: The properties that the cluster has beside those of the harness.
        tool: Has Kafka's tool format the folder.
    """
    if any(key.startswith(PLACES) for key in config):
        tool()
        return
    if (folder / "meta.properties").exists():
        return
    parts = [*asked, *(f"{key}={value}" for key, value in sorted(config.items()) if key.startswith(WRITTEN))]
    known = cache / hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with known.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not known.exists():
            tool()
            with tempfile.TemporaryDirectory(dir=cache) as work:
                shutil.copytree(folder, Path(work, "folder"))
                Path(work, "folder").rename(known)
            return
    shutil.copytree(known, folder, dirs_exist_ok=True)
    properties = folder / "meta.properties"
    text = re.sub(r"^node\.id=.*$", f"node.id={node}", properties.read_text(), flags=re.MULTILINE)
    properties.write_text(re.sub(r"^directory\.id=.*$", f"directory.id={_id()}", text, flags=re.MULTILINE))


def _id() -> str:
    """A random id in Kafka's form, which never begins with a dash."""
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made
