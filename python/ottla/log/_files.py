"""Files of logs, on this machine or through fsspec."""

from __future__ import annotations

import glob
import os
import posixpath
import re
import threading
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote

from ottla.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from io import FileIO

LOCAL = "file://"
HIDDEN = "***"


class Entry(NamedTuple):
    """What a folder holds.

    Attributes:
        name: Its name in the folder.
        path: Its whole path.
        size: Its bytes, of a file.
        is_folder: Whether it is a folder.
    """

    name: str
    path: str
    size: int
    is_folder: bool


class Reader(Protocol):
    """An open file.

    Attributes:
        size: Its bytes when it was opened.
    """

    size: int

    def read(self, start: int, length: int) -> bytes:
        """These bytes, or those up to the file's end."""


class Files(Protocol):
    """Where logs are.

    Attributes:
        path: What the user named.
    """

    path: str

    def folders(self) -> list[str]:
        """The folders that the user named."""

    def entries(self, folder: str) -> list[Entry]:
        """What a folder holds, in the order of names."""

    def open(self, path: str) -> AbstractContextManager[Reader]:
        """Open a file to read parts of it."""


def files_of(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None) -> Files:
    """The files that a path or a URL names.

    Raises:
        ArgumentError: The URL is of no file system that fsspec knows, or there are options for a path of this machine.
        ImportError: The URL needs fsspec, or a package of the file system.
    """
    text = os.fspath(path)
    text = text.removeprefix(LOCAL)
    if "://" in text:
        return RemoteFiles(text, storage_options or {})
    if storage_options:
        raise ArgumentError(
            f"{text} is a path on this machine, and there are options of fsspec: name a URL, such as "
            "s3://bucket/folder, or leave the options out"
        )
    return LocalFiles(text)


def shown(path: str) -> str:
    """A path or URL without the user, password and query that it may hold."""
    parts = _parts(path)
    if parts is None:
        return path
    user = f"{HIDDEN}@" if parts.user else ""
    query = f"?{HIDDEN}" if parts.query else ""
    return f"{parts.scheme}://{user}{parts.place}{query}"


class _Parts(NamedTuple):
    scheme: str
    user: str
    place: str
    query: str


def _parts(url: str) -> _Parts | None:
    """The parts of a URL; None for a path. A part that may be a secret counts as one."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return None
    # A `?` is a wildcard of patterns too.
    query_at = re.search(r"\?" if scheme.endswith(("http", "https")) else r"\?(?=[^?]*=)", rest)
    place, query = (rest[: query_at.start()], rest[query_at.end() :]) if query_at else (rest, "")
    authority = place.partition("/")[0]
    if "@" in query and ":" in authority and "@" not in authority:
        # The `?` belongs to a password.
        place, query, authority = rest, "", rest
    # So does a slash, if there is no host and port before it.
    head = place if ":" in authority else authority
    user, mark, _ = head.rpartition("@")
    return _Parts(scheme, user, place[len(user) + len(mark) :], query)


def _secrets(url: str) -> Iterator[str]:
    """The texts of a URL that may be secret, as they stand there and as they mean."""
    if (parts := _parts(url)) is None:
        return
    values = [value for _, value in parse_qsl(parts.query)]
    raw = [part.partition("=")[2] for part in parts.query.split("&")]
    for text in (parts.user, parts.user.partition(":")[2], parts.query, *raw, *values):
        yield from _texts(text)
        yield from _texts(unquote(text))


class LocalFiles:
    """Files of this machine."""

    def __init__(self, path: str) -> None:
        self.path = path

    def folders(self) -> list[str]:
        """The folders that the user named."""
        # A folder's name may have the letters of a pattern.
        found = [self.path] if os.path.isdir(self.path) else sorted(glob.glob(self.path))  # noqa: PTH112, PTH207
        return [os.path.abspath(each) for each in found if os.path.isdir(each)]  # noqa: PTH100, PTH112

    def entries(self, folder: str) -> list[Entry]:
        """What a folder holds, in the order of names; without what is deleted meanwhile."""
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    found.append(Entry(entry.name, entry.path, entry.stat().st_size, entry.is_dir()))
        return sorted(found)

    @contextmanager
    def open(self, path: str) -> Iterator[Reader]:
        """Open a file, which then may be deleted while it is read."""
        # Read, and not mapped into memory: a broker may cut the file, and then a mapping would end the process.
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            yield _LocalReader(file)


class _LocalReader:
    """Reads anywhere in a file. Threads may share it: Windows has no `pread`, so a lock keeps the file's position."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.size = os.fstat(file.fileno()).st_size

    def read(self, start: int, length: int) -> bytes:
        with self._lock:
            self._file.seek(start)
            data = self._file.read(length)
            while len(data) < length and (more := self._file.read(length - len(data))):
                data += more
        return data


class RemoteFiles:
    """Files of an fsspec file system. Its errors are passed on without the values of the options."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.path = url
        self._secrets = sorted({*_texts(options), *_secrets(url)}, key=len, reverse=True)
        try:
            fsspec = import_module("fsspec.core")
        except ImportError as error:
            raise ImportError(
                f"{shown(url)} is read through fsspec, which is not installed: pip install fsspec, and the package of "
                "the file system, such as s3fs. Paths on this machine need neither"
            ) from error
        with self._hiding(url):
            self._system, self._root = fsspec.url_to_fs(url, **options)

    def folders(self) -> list[str]:
        """The folders that the user named."""
        with self._hiding(self.path):
            self._system.invalidate_cache()
            found = self._system.glob(self._root) if glob.has_magic(self._root) else [self._root]
            return sorted(each.rstrip("/") for each in found if self._system.isdir(each))

    def entries(self, folder: str) -> list[Entry]:
        """What a folder holds, in the order of names."""
        with self._hiding(folder):
            # What was listed before may have grown.
            self._system.invalidate_cache(folder)
            listed = self._system.ls(folder, detail=True)
        found = [
            Entry(posixpath.basename(path), path, self._size(path, each), each["type"] == "directory")
            for each in listed
            # Some stores keep a folder as an object in itself.
            if (path := each["name"].rstrip("/")) != folder
        ]
        return sorted(found)

    @contextmanager
    def open(self, path: str) -> Iterator[Reader]:
        """Open a file; each part of it is a request."""
        with self._hiding(path):
            self._system.invalidate_cache(path)
        size = self._size(path, {})
        yield _RemoteReader(self, path, size)

    def _size(self, path: str, listed: Mapping[str, Any]) -> int:
        """The bytes of a file; a web server's list does not have them."""
        if listed.get("type") == "directory":
            return 0
        size = listed.get("size")
        if size is None:
            with self._hiding(path):
                size = self._system.size(path)
        if size is None:
            raise OSError(
                f"{shown(path)}: the file system does not report the file's size, which segments need: copy the "
                "folder to this machine"
            )
        return int(size)

    def read(self, path: str, start: int, end: int) -> bytes:
        """A part of a file."""
        with self._hiding(path):
            return bytes(self._system.cat_file(path, start=start, end=end))

    @contextmanager
    def _hiding(self, path: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - each file system has its own
            reason = re.sub(r"[a-z0-9+.:]+://[^\s'\"]*", lambda match: shown(match[0]), str(error))
            text = f"{shown(path)}: {type(error).__name__}: {reason}"
            for secret in self._secrets:
                text = text.replace(secret, HIDDEN)
            # What led to it may show the options.
            raise _class(error)(text) from None


def _class(error: Exception) -> type[Exception]:
    """What an error of a file system is to those who handle it."""
    for kind in (FileNotFoundError, PermissionError, TimeoutError, ImportError):
        if isinstance(error, kind):
            return kind
    # fsspec refuses an unknown protocol so.
    return ArgumentError if isinstance(error, ValueError) else OSError


class _RemoteReader:
    def __init__(self, files: RemoteFiles, path: str, size: int) -> None:
        self._files, self._path, self.size = files, path, size

    def read(self, start: int, length: int) -> bytes:
        return self._files.read(self._path, start, min(start + length, self.size))


def _texts(value: Any) -> Iterator[str]:
    """The texts in options that may be secret: short ones would be found everywhere."""
    if isinstance(value, str) and len(value) > 3:
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)
