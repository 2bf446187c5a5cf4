"""JSON Schemas, as they were read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ottla.testing._registry.errors import SchemaError


@dataclass(eq=False)
class Node:
    """A schema, with its keywords in one form whatever the draft is.

    Attributes:
        kind: `empty`, `true`, `false`, `ref`, `enum`, `const`, `not`, `conditional`, `combined`, or a type without
            `integer`, which is a `number`.
        values: The keywords, in which schemas are nodes.
        common: `$id`, `title`, `description`, `default` and `connect.type`.
    """

    kind: str
    values: dict[str, Any] = field(default_factory=dict)
    common: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        """A keyword; None without it."""
        return self.values.get(name)

    @property
    def is_empty(self) -> bool:
        """Whether any value is valid."""
        return self.kind in {"empty", "true"}

    def resolved(self) -> Node:
        """The schema that a reference stands for."""
        node = self
        for _ in range(100):
            if node.kind != "ref":
                return node
            node = node.values["target"]()
        raise SchemaError(f"the reference {self.values['ref']!r} refers to itself")

    def signature(self) -> str:
        """A text that equal schemas have in common."""
        return json.dumps(self._plain(), sort_keys=True, default=str)

    def _plain(self) -> Any:
        if self.kind == "ref":
            return ["ref", self.values["ref"]]
        return [self.kind, {name: _plain(value) for name, value in self.values.items()}, self.common]


def _plain(value: Any) -> Any:
    if isinstance(value, Node):
        return value._plain()  # noqa: SLF001 - its own module
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return sorted(value) if isinstance(value, set) else value
