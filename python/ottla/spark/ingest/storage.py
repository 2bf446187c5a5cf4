"""Files where Spark keeps its own: folders of any file system that its Hadoop libraries know, by URL."""

from collections.abc import Iterator
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
        java: Any = spark._jvm  # noqa: SLF001 - PySpark has no public name for it
        self._java = java
        self._path = self._java.org.apache.hadoop.fs.Path(path)
        self._system = self._path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001

    def __str__(self) -> str:
        return str(self._path.toString())

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

    def write(self, name: str, text: str) -> None:
        """Write a text so that it is there as a whole or not at all."""
        beside = self._at(f"{name}.new")
        stream = self._system.create(beside, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._system.delete(self._at(name), False)
        self._rename(beside, self._at(name))

    def move(self, name: str, other: str) -> bool:
        """Move a file to another name in this folder; false if there is none."""
        source, target = self._at(name), self._at(other)
        if not self._system.exists(source):
            return False
        self._system.mkdirs(target.getParent())
        self._rename(source, target)
        return True

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all that is in it, if it is there."""
        self._system.delete(self._at(name), True)

    def _at(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(self._path, name) if name else self._path

    def _rename(self, source: Any, target: Any) -> None:
        if not self._system.rename(source, target):
            raise OSError(f"{source.toString()} cannot be renamed to {target.toString()}")

    def _walk(self, folder: Any, begin: str) -> Iterator[File]:
        if not self._system.exists(folder):
            return
        listed = self._system.listFiles(folder, True)
        while listed.hasNext():
            status = listed.next()
            name = str(status.getPath().toUri().getPath())
            yield File(name[len(begin) :], int(status.getLen()))
