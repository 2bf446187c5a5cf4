"""Delegation tokens."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

__all__ = ["DelegationToken"]


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token (KIP-48): a name and a password for SCRAM that stand for its owner.

    A client that authenticates with it has `sasl_mechanism="SCRAM-SHA-256"` (or 512) and
    `sasl_jaas_config=token.login()`.

    Attributes:
        id: Its id: the user name of who authenticates with it.
        hmac: Its HMAC, a secret, which no repr shows.
        owner: Type and name of whom it stands for, such as `("User", "alice")`.
        requester: Type and name of who asked for it; None where brokers do not return it (before Kafka 3.3).
        renewers: Types and names of who may renew it, besides its owner.
        issued: When it was made, in milliseconds since 1970 UTC.
        expires: When it ends unless it is renewed, in milliseconds since 1970 UTC.
        ends: When it ends at the latest, in milliseconds since 1970 UTC.
    """

    id: str
    hmac: bytes = field(repr=False)
    owner: tuple[str, str]
    requester: tuple[str, str] | None
    renewers: list[tuple[str, str]]
    issued: int
    expires: int
    ends: int

    def login(self) -> str:
        """Make the `sasl.jaas.config` of a client that authenticates with this token.

        Returns:
            The value, which holds the secret.
        """
        password = base64.b64encode(self.hmac).decode()
        return f'ScramLoginModule required username="{self.id}" password="{password}" tokenauth="true";'
