"""The options of a read of log files. Those that `format("ottla")` has too mean the same here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.log import DEFAULT_BYTES
from ottla.spark.plan.positions import parse_end, parse_start
from ottla.spark.plan.read_options import ASSIGN, PATTERN, SUBSCRIBE, ReadOptions, Topics, parse_topics
from ottla.spark.shared import formats, redaction
from ottla.spark.shared.option_values import boolean, choice, lowered, positive

STORAGE = "fsspec."
ISOLATION = "kafka.isolation.level"
KEYS = "privateKeyFiles"
KNOWN = (
    "path",
    "remotePath",
    KEYS,
    SUBSCRIBE,
    PATTERN,
    ASSIGN,
    "startingOffsets",
    "endingOffsets",
    "failOnDataLoss",
    "includeHeaders",
    "maxBytesPerPartition",
    ISOLATION,
    *(name for name in formats.KNOWN if name != "deadLetterTopic"),
)


@dataclass(frozen=True)
class LogOptions:
    """The checked options of a read of files. They are plain data and travel to executors by pickle.

    Attributes:
        path: The folder, pattern or URL. A repr leaves it out, since it may hold a password.
        read: What is read of it, as of brokers.
        isolation: The isolation level.
        max_bytes: About the most bytes of a task.
        storage: Arguments of fsspec's file system. A repr leaves them out, since some are secret.
        remote: The store of tiered segments.
        key_files: Names of RSA keys of encrypted segments, and the driver's files with them.
    """

    path: str = field(repr=False)
    read: ReadOptions
    isolation: str = "read_uncommitted"
    max_bytes: int = DEFAULT_BYTES
    storage: tuple[tuple[str, Any], ...] = field(default=(), repr=False)
    remote: str | None = field(default=None, repr=False)
    key_files: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "LogOptions":
        """Check options and give them their types.

        Args:
            options: As Spark hands them over.

        Raises:
            ValueError: One is missing, unknown or has a bad value; the message names it.
        """
        given = lowered(options, KNOWN, "argument of the file system", STORAGE)
        path = given.get("path", "").strip()
        if not path:
            raise ValueError(
                'option path is missing: a folder with segments, such as "/var/lib/kafka/data/orders-0", or one with '
                "such folders, or a glob pattern or URL of them"
            )
        start = parse_start(given)
        if start is not None and start.group is not None:
            raise ValueError(
                "option startingOffsets cannot name a consumer group in a read of files, which do not have the group's "
                "committed offsets: give offsets as JSON"
            )
        chosen = any(name.lower() in given for name in (SUBSCRIBE, PATTERN, ASSIGN))
        read = ReadOptions(
            bootstrap="",
            topics=parse_topics(given) if chosen else Topics(),
            start=start,
            end=parse_end(given),
            include_headers=boolean("includeHeaders", given, default=ReadOptions.include_headers),
            fail_on_data_loss=boolean("failOnDataLoss", given, default=ReadOptions.fail_on_data_loss),
            typed=formats.parse(given),
        )
        bare = {redaction.bare(name): value for name, value in options.items()}
        storage = {name: value for name, value in bare.items() if name.lower().startswith(STORAGE)}
        return cls(
            path=path,
            read=read,
            isolation=choice(ISOLATION, given, ("read_uncommitted", "read_committed")) or cls.isolation,
            max_bytes=positive("maxBytesPerPartition", given) or cls.max_bytes,
            storage=tuple(sorted((name[len(STORAGE) :], _value(name, value)) for name, value in storage.items())),
            remote=given.get("remotepath", "").strip() or None,
            key_files=_key_files(given.get(KEYS.lower())),
        )

    def private_keys(self) -> dict[str, bytes]:
        """The keys of encrypted segments. Only the driver reads them: tasks get the keys of their segments.

        Raises:
            ValueError: A file cannot be read.
        """
        found = {}
        for name, path in self.key_files:
            try:
                found[name] = Path(path).read_bytes()
            except OSError as error:
                raise ValueError(f"option {KEYS}: the file of key {name!r} cannot be read: {error}") from None
        return found


def _key_files(text: str | None) -> tuple[tuple[str, str], ...]:
    if text is None:
        return ()
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(path, str) for path in found.values()):
        raise ValueError(
            f"option {KEYS} is a JSON object of the names of keys and the paths of their files on the driver, such as "
            '{"key-1": "/etc/kafka/key-1.pem"}'
        )
    return tuple(sorted(found.items()))


def _value(option: str, text: str) -> Any:
    """A text as fsspec takes it: what looks like JSON's words, lists and objects is that."""
    if text in ("true", "false", "null") or text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            # Its text may be secret.
            raise ValueError(f"option {option} begins like JSON, but is not JSON: {error.msg}") from None
    return text
