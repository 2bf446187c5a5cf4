"""A throw-away certificate authority for tests, and what it signs, as files that every client can read."""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla import _ottla

LOOPBACK = ("localhost", "127.0.0.1", "::1")
DAY = 86_400.0


@dataclass(frozen=True)
class Identity:
    """Files in PEM: who a server or a client is, and whom it trusts.

    Attributes:
        certificate: The certificate, and what is above it.
        key: Its private key, not encrypted.
        ca: The certificate of the authority that the other side's certificate must come from.
    """

    certificate: Path
    key: Path
    ca: Path


class Certificates:
    """An authority for tests, with certificates for servers and clients.

    ```python
    from ottla.testing import Broker, Certificates

    with Certificates() as certificates:
        alice = certificates.client("alice")
        with Broker(listeners=["SSL client-auth=required"], tls=certificates) as broker:
            print(broker.bootstrap_servers, certificates.ca, alice.certificate, alice.key)
    ```

    Args:
        folder: Where its files go. Without it they go to a temporary folder, which is removed by `close`, at the end of
            a with statement, or with the object.
        hosts: Host names and addresses that a server's certificate is for.
    """

    def __init__(self, folder: str | PathLike[str] | None = None, *, hosts: Iterable[str] = LOOPBACK) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ottla-certificates-") if folder is None else folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._remove = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        if folder is not None:
            self._remove.detach()
        self._hosts = list(hosts)
        now = int(time.time())
        self._authority = _ottla.CertificateAuthority("ottla test authority", now - int(DAY), now + 3650 * int(DAY))
        self._count = 0
        self.ca = self.folder / "ca.pem"
        self.ca.write_text(self._authority.certificate, encoding="utf-8")

    def server(
        self, *, hosts: Iterable[str] | None = None, valid_from: float = -DAY, valid_for: float = 365 * DAY
    ) -> Identity:
        """Sign a server's certificate.

        Args:
            hosts: Host names and addresses that it is for; those of the authority if not given. With others a test
                shows what clients report for a server with a wrong name.
            valid_from: Seconds from now to its first moment.
            valid_for: Seconds from now to its last moment; below 0 it has expired.

        Returns:
            The server's files; `ca` signs its clients.
        """
        names = self._hosts if hosts is None else list(hosts)
        now = int(time.time())
        pair = self._authority.server(names, now + int(valid_from), now + int(valid_for))
        return self._write("server", pair)

    def client(self, name: str, *, valid_from: float = -DAY, valid_for: float = 365 * DAY) -> Identity:
        """Sign a client's certificate.

        Args:
            name: Its common name. The broker's principal for it is `User:CN=name`, or `User:name` on a listener with
                `principal=cn`.
            valid_from: Seconds from now to its first moment.
            valid_for: Seconds from now to its last moment; below 0 it has expired.

        Returns:
            The client's files; `ca` signs the server.
        """
        now = int(time.time())
        pair = self._authority.client(name, now + int(valid_from), now + int(valid_for))
        return self._write("client", pair)

    def close(self) -> None:
        """Remove the files, unless they are in a folder of yours."""
        self._remove()

    def _write(self, kind: str, pair: tuple[str, str]) -> Identity:
        self._count += 1
        certificate = self.folder / f"{kind}-{self._count}.pem"
        key = self.folder / f"{kind}-{self._count}.key"
        certificate.write_text(pair[0], encoding="utf-8")
        key.touch(mode=0o600)
        key.write_text(pair[1], encoding="utf-8")
        return Identity(certificate, key, self.ca)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Certificates({str(self.folder)!r})"
