"""`create_ssl_context`: an `ssl.SSLContext` that remembers the files of its client certificate.

ottla's TLS is rustls, which takes files and texts, and an `ssl.SSLContext` does not give back what it loaded.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["RememberingContext", "create_ssl_context"]
_Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Password: TypeAlias = Callable[[], str | bytes | bytearray] | str | bytes | bytearray | None


class RememberingContext(ssl.SSLContext):
    """A context that knows which client certificate and which folders of authorities were loaded.

    Attributes:
        certificate: The files of the client's certificate and key, and the key's password.
        folders: The folders of authorities.
    """

    certificate: tuple[str, str, str | None] | None = None
    folders: tuple[Path, ...] = ()

    def load_cert_chain(self, certfile: _Path, keyfile: _Path | None = None, password: _Password = None) -> None:
        """Load a client certificate, and remember it.

        Args:
            certfile: A PEM file of the certificate, and of the authorities that lead to it.
            keyfile: A PEM file of the key; without it, `certfile` has the key.
            password: The key's password, or a function that returns it.
        """
        super().load_cert_chain(certfile, keyfile, password)
        secret = password() if callable(password) else password
        text = bytes(secret).decode() if isinstance(secret, bytes | bytearray) else secret
        chain = os.fsdecode(certfile)
        self.certificate = (chain, chain if keyfile is None else os.fsdecode(keyfile), text)

    def load_verify_locations(
        self, cafile: _Path | None = None, capath: _Path | None = None, cadata: Any = None
    ) -> None:
        """Load authorities, and remember their folder: OpenSSL reads it only when it verifies.

        Args:
            cafile: A PEM file.
            capath: A folder of PEM files.
            cadata: PEM as text, or DER as bytes.
        """
        super().load_verify_locations(cafile, capath, cadata)
        if capath is not None:
            self.folders = (*self.folders, Path(os.fsdecode(capath)))


def create_ssl_context(
    *,
    cafile: _Path | None = None,
    capath: _Path | None = None,
    cadata: str | bytes | None = None,
    certfile: _Path | None = None,
    keyfile: _Path | None = None,
    password: _Password = None,
) -> ssl.SSLContext:
    """Make a context for `ssl_context`.

    Args:
        cafile: A PEM file of the authorities that sign the brokers' certificates. Without any, the system's.
        capath: A folder of such files.
        cadata: PEM as text, or DER as bytes.
        certfile: A PEM file of the client's certificate.
        keyfile: A PEM file of its key; without it, `certfile` has the key.
        password: The key's password, or a function that returns it.
    """
    context = RememberingContext(ssl.PROTOCOL_TLS_CLIENT)
    if cafile or capath or cadata:
        context.load_verify_locations(cafile, capath, cadata)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile, password)
    return context
