"""Errors as one sentence: users read the last line of a Spark trace."""

from typing import TypeVar

E = TypeVar("E", bound=Exception)


def extended(error: E, about: str) -> E:
    """The error, whose text goes on with what it is about; a note would stand on a line of its own."""
    error.args = (f"{error}; this is about {about}",)
    return error
