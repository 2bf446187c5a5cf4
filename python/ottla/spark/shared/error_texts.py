"""Errors as one sentence: the last line of a trace of Spark's is what its users read."""

from typing import TypeVar

E = TypeVar("E", bound=Exception)


def extended(error: E, about: str) -> E:
    """The error, whose text goes on with what it is about; a note would stand on a line of its own."""
    error.args = (f"{error}; this is about {about}",)
    return error
