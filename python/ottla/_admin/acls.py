"""Access control lists."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AclBinding", "AclFilter"]


@dataclass(frozen=True, order=True)
class AclBinding:
    """A rule of an access control list.

    Attributes:
        resource_type: `"TOPIC"`, `"GROUP"`, `"CLUSTER"`, `"TRANSACTIONAL_ID"`, `"DELEGATION_TOKEN"` or `"USER"`.
        name: The name of the resource, or its beginning; of the cluster `"kafka-cluster"`. `"*"` is any.
        principal: Who, such as `"User:alice"`; `"User:*"` is anybody.
        operation: What, such as `"READ"`, `"WRITE"` or `"ALL"`.
        permission: `"ALLOW"` or `"DENY"`.
        pattern_type: `"LITERAL"`, or `"PREFIXED"` if the name is the beginning of names (KIP-290, Kafka 2.0).
        host: The address of the client; `"*"` is any.
    """

    resource_type: str
    name: str
    principal: str
    operation: str
    permission: str = "ALLOW"
    pattern_type: str = "LITERAL"
    host: str = "*"


@dataclass(frozen=True)
class AclFilter:
    """Which rules of access control lists a call is about. Without arguments it is about all.

    Attributes:
        resource_type: The type of the resource; `"ANY"` for all.
        name: The name in the rule; None for all.
        principal: Who; None for all.
        operation: What; `"ANY"` for all.
        permission: `"ALLOW"`, `"DENY"`, or `"ANY"`.
        pattern_type: `"LITERAL"`, `"PREFIXED"`, `"ANY"`, or `"MATCH"` for all rules that are about a resource of this
            name.
        host: The address in the rule; None for all.
    """

    resource_type: str = "ANY"
    name: str | None = None
    principal: str | None = None
    operation: str = "ANY"
    permission: str = "ANY"
    pattern_type: str = "ANY"
    host: str | None = None
