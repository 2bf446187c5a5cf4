"""Users: their credentials for SCRAM, and quotas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["ClientQuota", "ScramCredential", "ScramDeletion", "ScramUpsertion"]


@dataclass(frozen=True, order=True)
class ScramCredential:
    """A credential for SCRAM, without its secret.

    Attributes:
        mechanism: `"SCRAM-SHA-256"` or `"SCRAM-SHA-512"`.
        iterations: How often the password is hashed.
    """

    mechanism: str
    iterations: int


@dataclass(frozen=True)
class ScramUpsertion:
    """A password to set for a user and a mechanism of SCRAM.

    Attributes:
        user: The user.
        mechanism: `"SCRAM-SHA-256"` or `"SCRAM-SHA-512"`.
        password: The password, which no repr shows and which is not sent: brokers get its salted hash.
        iterations: How often it is hashed, from 4096 to 16384.
        salt: The salt; None for a random one.
    """

    user: str
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
    password: str = field(repr=False)
    iterations: int = 8192
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ScramDeletion:
    """A credential to delete.

    Attributes:
        user: The user.
        mechanism: `"SCRAM-SHA-256"` or `"SCRAM-SHA-512"`.
    """

    user: str
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


@dataclass(frozen=True)
class ClientQuota:
    """Quotas of an entity.

    Attributes:
        entity: Names by type, such as `{"user": "alice", "client-id": None}`; None is the default of that type. Types
            are `"user"`, `"client-id"` and `"ip"`.
        quotas: Values by name: `"producer_byte_rate"`, `"consumer_byte_rate"`, `"request_percentage"`,
            `"controller_mutation_rate"` and `"connection_creation_rate"`.
    """

    entity: dict[str, str | None]
    quotas: dict[str, float]
