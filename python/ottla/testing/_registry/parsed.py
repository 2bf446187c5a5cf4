"""What the registry knows of a schema, whatever its format is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Self

from ottla.testing._registry.errors import SchemaError


class ParsedSchema(Protocol):
    """A schema that was read.

    Attributes:
        text: Its text, as the registry returns it.
        identity: Two schemas with the same one are the same schema.
    """

    text: str
    identity: str

    @classmethod
    def parse(cls, text: str, references: Mapping[str, str]) -> Self:
        """Read a schema.

        Args:
            text: Its text.
            references: Texts of the schemas that it names, by the name in the reference; those that others name first.

        Raises:
            SchemaError: The schema is invalid.
        """

    def normalized(self) -> str:
        """The text in its normal form."""

    def formatted(self, format: str) -> str:  # noqa: A002 - as the query names it
        """The text in a format that the request names; the usual text for an unknown one."""

    def problems(self, writer: Self, *, lenient: bool) -> list[str]:
        """Why this schema cannot read what `writer` wrote; each with an error type and a description.

        Each `%s` stands for "new" or "old", whichever the schema is that the text mentions next.
        """


def parse(kind: str, text: str, references: Mapping[str, str]) -> ParsedSchema:
    """Read a schema of a type.

    Raises:
        SchemaError: The schema is invalid, or there is no such type.
    """
    if kind == "AVRO":
        from ottla.testing._registry.avro import AvroSchema

        return AvroSchema.parse(text, references)
    if kind == "JSON":
        from ottla.testing._registry.json_schema import JsonSchema

        return JsonSchema.parse(text, references)
    if kind == "PROTOBUF":
        # Imported on use: only these schemas need the package protobuf.
        from ottla.testing._registry.protobuf import ProtobufSchema

        return ProtobufSchema.parse(text, references)
    raise SchemaError(f"Invalid schema type {kind}")
