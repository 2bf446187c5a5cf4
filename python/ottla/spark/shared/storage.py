"""Files where Spark keeps its own: folders of any file system that its Hadoop libraries know, by URL."""

import uuid
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from pyspark.sql import SparkSession


class File(NamedTuple):
    """A file below a folder.

    Attributes:
        name: Its path from that folder.
        size: Its bytes.
    """

    name: str
    size: int


class Folder:
    """A folder, which need not be there.

    Args:
        spark: A classic session: Connect has no way to the files.
        path: Of the folder, as Spark takes it.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        context: Any = spark.sparkContext
        self._java, self._gateway = context._jvm, context._gateway  # noqa: SLF001 - PySpark has no public names for them
        self._path = self._java.org.apache.hadoop.fs.Path(path)
        self._configuration = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        self._system = self._path.getFileSystem(self._configuration)

    def __str__(self) -> str:
        return str(self._path.toString())

    @property
    def url(self) -> str:
        """The whole path, with the file system."""
        return str(self._system.makeQualified(self._path).toString())

    def files(self, name: str = "") -> list[File]:
        """The files below a folder, at any depth, in the order of their names; none if it is not there."""
        begin = self._system.makeQualified(self._at(name)).toUri().getPath().rstrip("/") + "/"
        return sorted(self._walk(self._at(name), begin))

    def read(self, name: str) -> str | None:
        """A text; None if it is not there."""
        at = self._at(name)
        if not self._system.exists(at):
            return None
        stream = self._system.open(at)
        try:
            return str(self._java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def names(self, name: str) -> list[str]:
        """What stands in a folder itself, files and folders, in order; nothing if it is not there."""
        at = self._at(name)
        if not self._system.exists(at):
            return []
        return sorted(str(status.getPath().getName()) for status in self._system.listStatus(at))

    def size(self, name: str) -> int | None:
        """The bytes of a file; None if it is not there."""
        at = self._at(name)
        return int(self._system.getFileStatus(at).getLen()) if self._system.exists(at) else None

    def make(self, name: str, text: str) -> bool:
        """Make a text so that it is there as a whole or not at all; false if there is one, which stays.

        Raises:
            OSError: It cannot be made.
        """
        at = self._system.makeQualified(self._at(name))
        # Under a name that Spark's own readers pass over.
        beside = self._java.org.apache.hadoop.fs.Path(at.getParent(), f".{at.getName()}.{uuid.uuid4().hex}.tmp")
        stream = self._system.create(beside, False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        plain = self._gateway.new_array(self._java.org.apache.hadoop.fs.Options.Rename, 0)
        try:
            self._renames.rename(beside, at, plain)
        except Exception as error:
            self._system.delete(beside, False)
            if self._system.exists(at):
                return False
            raise OSError(f"{at.toString()} cannot be made: {error}") from error
        return True

    def move(self, name: str, other: str) -> None:
        """Move a file to another name in this folder, which no file has.

        Raises:
            OSError: It cannot be moved.
        """
        source, target = self._at(name), self._at(other)
        self._system.mkdirs(target.getParent())
        if not self._system.rename(source, target):
            raise OSError(f"{source.toString()} cannot be renamed to {target.toString()}")

    def local(self, name: str) -> str | None:
        """The path of a file on this machine; None if the folder is elsewhere."""
        uri = self._system.makeQualified(self._at(name)).toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it, if it is there."""
        self._system.delete(self._at(name), True)

    def _at(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(self._path, name) if name else self._path

    @cached_property
    def _renames(self) -> Any:
        """What renames without overwriting, which `FileSystem` does not promise."""
        whole = self._system.makeQualified(self._path)
        return self._java.org.apache.hadoop.fs.FileContext.getFileContext(whole.toUri(), self._configuration)

    def _walk(self, folder: Any, begin: str) -> Iterator[File]:
        if not self._system.exists(folder):
            return
        listed = self._system.listFiles(folder, True)
        while listed.hasNext():
            status = listed.next()
            name = str(status.getPath().toUri().getPath())
            yield File(name[len(begin) :], int(status.getLen()))
