"""Spark errors as one sentence: the message of the innermost error, without traces, plans and options."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from ottla.errors import KafkaError

# The last line of a trace of Python, or the first one of a cause in Java; before the text, where the class is from.
_ERROR = re.compile(
    r"^\s*(?:Caused by: |: )?(?P<module>(?:\w+\.)*)(?P<name>\w+(?:Error|Exception)): (?P<text>.+)$", re.MULTILINE
)
# What Spark adds to its own messages: a code for programs, and where in a text of SQL it was.
_ADDED = re.compile(r"\s*SQLSTATE: \w+;?|\s*;?\s*line \d+ pos \d+;?$")
# PySpark's logger of queries that fail, which prints the options of the source too.
_LOGGER = "SQLQueryContextLogger"


class IngestError(KafkaError):
    """A job of `ottla ingest` failed; the text is that of the innermost cause."""


@contextmanager
def plain_errors(subject: str) -> Iterator[None]:
    """Errors of Spark as one sentence.

    Args:
        subject: What it is about.

    Raises:
        IngestError: In the place of an error of Spark.
    """
    logger = logging.getLogger(_LOGGER)
    disabled, logger.disabled = logger.disabled, True
    try:
        yield
    except PySparkException as error:
        raise IngestError(f"{subject} {innermost(str(error))}") from error
    finally:
        logger.disabled = disabled


def innermost(text: str) -> str:
    """The message of the innermost error in the text of a Spark error."""
    found = list(_ERROR.finditer(text))
    ours = [error for error in found if error["module"].startswith("ottla.")]
    if ours:
        return ours[-1]["text"]
    if found:
        return f"{found[-1]['name']}: {_ADDED.sub('', found[-1]['text'])}"
    first = next((line for line in text.splitlines() if line.strip()), "Spark gave no reason")
    return _ADDED.sub("", first)
