"""Where a stream of `format("ottla")` keeps over restarts what it remembers.

Python sources cannot store state in Spark, and do not get the checkpoint's path. So the state is one text in a folder
that the user names (option `rememberTopicsIn`), rewritten whenever a batch is planned.
"""

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from ottla.spark.plan.topic_history import TopicHistory
from ottla.spark.shared.offsets import Offsets, from_json, to_json

OPTION = "rememberTopicsIn"
NAME = "topics.json"
# Where the first batch begins, until it is past.
BEGINNING = "beginning.json"


class TopicHistoryFile:
    """The text in a folder.

    Args:
        folder: On this machine, or a URL that fsspec knows.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def past(self) -> TopicHistory:
        """What was kept; nothing if nothing was.

        Raises:
            ValueError: It is not what `keep` writes.
            OSError: It cannot be read.
            ImportError: The URL needs fsspec, or a package of the file system.
        """
        text = self._read(NAME)
        if text is None:
            return TopicHistory()
        try:
            return TopicHistory.from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(
                f"option {OPTION}: {NAME} in {self._folder} is damaged, or of something else. Name another folder; if "
                "you are sure that no topic was recreated, delete the file"
            ) from None

    def keep(self, past: TopicHistory) -> None:
        """Keep it in place of what was kept before.

        Raises:
            OSError: It cannot be written.
        """
        self._write(NAME, json.dumps(past.to_json()))

    def beginning(self) -> Offsets | None:
        """Where the first batch begins; None if that was not kept, or the batch is past.

        Raises:
            ValueError: It is not what `begin` writes.
            OSError: It cannot be read.
        """
        try:
            kept = json.loads(self._read(BEGINNING) or "null")
            return None if kept is None else from_json(kept)
        except (ValueError, TypeError, AttributeError):
            raise ValueError(
                f"option {OPTION}: {BEGINNING} in {self._folder} is damaged, or of something else. Name another "
                "folder; if the query has a batch done, delete the file"
            ) from None

    def begin(self, offsets: Offsets | None) -> None:
        """Keep where the first batch begins; None once it is past.

        Raises:
            OSError: It cannot be written.
        """
        self._write(BEGINNING, json.dumps(None if offsets is None else to_json(offsets)))

    def _write(self, name: str, text: str) -> None:
        if self._is_url:
            system, root = self._system()
            system.makedirs(root, exist_ok=True)
            system.pipe_file(f"{root}/{name}", text.encode())
            return
        folder = Path(self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        # A driver that dies leaves the one or the other.
        beside = folder / f".{name}.{os.getpid()}"
        beside.write_text(text, encoding="utf-8")
        beside.replace(folder / name)

    def _read(self, name: str) -> str | None:
        try:
            if self._is_url:
                system, root = self._system()
                return str(system.cat_file(f"{root}/{name}").decode())
            return (Path(self._folder) / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    @property
    def _is_url(self) -> bool:
        return "://" in self._folder

    def _system(self) -> tuple[Any, str]:
        try:
            fsspec = import_module("fsspec.core")
        except ImportError as error:
            raise ImportError(
                f"option {OPTION}: a URL is written through fsspec, which is not installed: pip install fsspec, and "
                "the package of the file system, such as s3fs. Paths on this machine need neither"
            ) from error
        system, root = fsspec.url_to_fs(self._folder)
        return system, root.rstrip("/")
