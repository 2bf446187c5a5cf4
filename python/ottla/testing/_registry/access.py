"""Who may use the registry: users, tokens and client certificates."""

from __future__ import annotations

import base64
import hmac
import ssl
from collections.abc import Iterable, Mapping

from ottla.testing._certificates import Identity


class Access:
    """The credentials that the registry accepts; without any, every request is accepted.

    Args:
        users: Passwords by user, for basic authentication.
        tokens: Bearer tokens.
    """

    def __init__(self, users: Mapping[str, str], tokens: Iterable[str]) -> None:
        pairs = (f"{user}:{password}".encode() for user, password in users.items())
        self._accepted = [
            *(b"basic " + base64.b64encode(pair) for pair in pairs),
            *(b"bearer " + token.encode() for token in tokens),
        ]

    def allows(self, authorization: str | None) -> bool:
        """Whether a request with this header is accepted."""
        scheme, _, value = (authorization or "").partition(" ")
        shown = f"{scheme.lower()} {value.strip()}".encode()
        return not self._accepted or any(hmac.compare_digest(shown, each) for each in self._accepted)


def server_context(identity: Identity, *, needs_certificate: bool) -> ssl.SSLContext:
    """The TLS of a server.

    Args:
        identity: The server's files.
        needs_certificate: Whether a client needs a certificate that the authority of `identity` signed.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=identity.ca if needs_certificate else None)
    context.load_cert_chain(identity.certificate, identity.key)
    if needs_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
    return context
