"""Names of subjects, which may have a context: `:.staging:orders-value`."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_CONTEXT = "."
ALL_CONTEXTS = ":*:"


class Name(NamedTuple):
    """A subject in a context.

    Attributes:
        context: The context, which begins with a dot; `.` is the default one.
        subject: The subject without its context; empty for the context alone.
    """

    context: str
    subject: str

    @classmethod
    def parse(cls, text: str, context: str = DEFAULT_CONTEXT) -> Name:
        """Split a name; without a context in it, it is one of `context`."""
        if not text.startswith(":."):
            return cls(context, text)
        inner, _, subject = text[1:].partition(":")
        return cls(inner, subject)

    def __str__(self) -> str:
        return self.subject if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.subject}"
