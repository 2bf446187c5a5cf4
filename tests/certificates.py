"""Certificates of a throw-away authority, and a TLS front for any port, by OpenSSL: nothing of ours has a part in them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PASSWORD = "changeit"
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
CA = """
[ca]
default_ca = own
[own]
database = {folder}/index.txt
new_certs_dir = {folder}
serial = {folder}/serial
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""


def openssl(*words: str | Path) -> None:
    """Run `openssl`."""
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def front(port: int, certificate: Certificate, *, clients: str | None = None, newest: str = "TLSv1.3") -> Iterator[int]:
    """A port that speaks TLS, and passes what it decrypts on to a port that does not.

    Args:
        port: The port behind.
        certificate: What it shows.
        clients: The authority whose certificates clients must have; None asks for none.
        newest: The newest version of TLS that it speaks.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.pem, certificate.key)
    context.maximum_version = ssl.TLSVersion[newest.replace(".", "_")]
    if clients:
        context.load_verify_locations(clients)
        context.verify_mode = ssl.CERT_REQUIRED
    made = Front(port, context)
    try:
        yield made.start()
    finally:
        made.stop()


class Front:
    """The threads and sockets of a TLS front."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port, self._context = port, context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets = [self._listener]

    def start(self) -> int:
        """Accept connections; the port."""
        self._run(self._accept)
        return int(self._listener.getsockname()[1])

    def stop(self) -> None:
        """End every connection and thread."""
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in list(self._threads):
            thread.join(10)

    def _run(self, work: Callable[..., None], *args: socket.socket) -> None:
        self._threads.append(threading.Thread(target=work, args=args, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._run(self._shake, self._listener.accept()[0])

    def _shake(self, plain: socket.socket) -> None:
        try:
            plain.settimeout(30)
            secured = self._context.wrap_socket(plain, server_side=True)
            behind = socket.create_connection(("127.0.0.1", self._port), timeout=30)
        except OSError:
            plain.close()
            return
        self._sockets += [secured, behind]
        self._run(self._copy, behind, secured)
        self._copy(secured, behind)

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Certificate:
    """The files of a certificate and its key: PEM, and both in one PKCS #12."""

    def __init__(self, stem: Path) -> None:
        self.pem, self.key = f"{stem}.pem", f"{stem}.key"
        self.encrypted_key, self.p12 = f"{stem}-encrypted.key", f"{stem}.p12"


class Authority:
    """Signs certificates; its own is `ca`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.ca = folder, str(folder / "ca.pem")
        (folder / "openssl.cnf").write_text(CA.format(folder=folder))
        (folder / "index.txt").touch()
        (folder / "serial").write_text("1000")
        key = folder / "ca.key"
        openssl(
            "req", "-x509", *CURVE, "-nodes", "-keyout", key, "-out", self.ca, "-days", "9", "-subj", "/CN=an authority"
        )

    def issue(
        self, name: str, names: str = "DNS:localhost,IP:127.0.0.1", until: str = "20990101000000Z"
    ) -> Certificate:
        """Issue a certificate for the alternative names, valid from 2020 until a time."""
        made, request = Certificate(self.folder / name), self.folder / f"{name}.csr"
        subject = ("-subj", f"/CN={name}", "-addext", f"subjectAltName={names}")
        openssl("req", *CURVE, "-nodes", "-keyout", made.key, "-out", request, *subject)
        dates = ("-startdate", "20200101000000Z", "-enddate", until)
        signer = ("-config", self.folder / "openssl.cnf", "-cert", self.ca, "-keyfile", self.folder / "ca.key")
        openssl("ca", "-batch", "-notext", *signer, *dates, "-in", request, "-out", made.pem)
        locked = ("-passout", f"pass:{PASSWORD}")
        openssl("pkcs8", "-topk8", "-in", made.key, "-v2", "aes-256-cbc", *locked, "-out", made.encrypted_key)
        chain = ("-inkey", made.key, "-in", made.pem, "-certfile", self.ca)
        openssl("pkcs12", "-export", *chain, *locked, "-out", made.p12)
        return made
