"""A schema registry for tests, with Confluent's REST API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ottla.errors import ArgumentError, ClosedError
from ottla.testing._certificates import Certificates, Identity

if TYPE_CHECKING:
    from ottla.testing._registry.server import Server


class Registry:
    """A schema registry in this process, from `start` to `stop` or in a with statement.

    It has Confluent's REST API, so any client of Confluent's Schema Registry in any process can use it. It starts
    empty, in memory. Schemas of Protobuf need the package `protobuf` (`pip install 'ottla[registry]'`).

    ```python
    from ottla.testing import Broker, Registry

    with Broker() as broker, Registry() as registry:
        client = ottla.SchemaRegistry(registry.url)
    ```

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        compatibility: The global compatibility level: `"NONE"`, `"BACKWARD"`, `"FORWARD"`, `"FULL"`, or one of the
            last three with `_TRANSITIVE`.
        users: Passwords of users, for HTTP basic authentication. With users or tokens, other requests get status 401.
        tokens: Bearer tokens that are accepted.
        tls: The server's certificate, for `https`: `Certificates`, or the `Identity` of a server.
        client_auth: `"none"`, or `"required"` if clients need a certificate that the `ca` of `tls` signed.

    Raises:
        ArgumentError: There is no such compatibility level, or `client_auth` is another text or has no `tls`.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        compatibility: str = "BACKWARD",
        users: Mapping[str, str] | None = None,
        tokens: Iterable[str] = (),
        tls: Certificates | Identity | None = None,
        client_auth: str = "none",
    ) -> None:
        from ottla.testing._registry.store import LEVELS

        if compatibility not in LEVELS:
            raise ArgumentError(f"compatibility must be one of {', '.join(LEVELS)}, not {compatibility!r}")
        if client_auth not in {"none", "required"}:
            raise ArgumentError(f"client_auth must be none or required, not {client_auth!r}")
        if client_auth == "required" and tls is None:
            raise ArgumentError("client_auth needs tls: pass Certificates as tls")
        self._host, self._port, self._compatibility = host, port, compatibility
        self._users, self._tokens = dict(users or {}), list(tokens)
        self._tls, self._needs_certificate = tls, client_auth == "required"
        self._running: Server | None = None

    def start(self) -> Self:
        """Start it, unless it runs.

        Returns:
            The registry itself.

        Raises:
            OSError: The address cannot be listened on.
        """
        if self._running is None:
            # HTTP is imported for the first registry only: `import ottla.testing` stays quick.
            from ottla.testing._registry.access import Access, server_context
            from ottla.testing._registry.server import Server

            identity = self._tls.server() if isinstance(self._tls, Certificates) else self._tls
            context = None if identity is None else server_context(identity, needs_certificate=self._needs_certificate)
            self._running = Server(self._host, self._port, Access(self._users, self._tokens), context)
            self._running.store.set_config(None, {"compatibilityLevel": self._compatibility})
        return self

    def stop(self) -> None:
        """Stop it, if it runs: connections are closed, and its schemas are gone."""
        if self._running is not None:
            self._running.close()
            self._running = None

    @property
    def url(self) -> str:
        """Its address, such as `http://127.0.0.1:8081`; with `tls`, it begins with `https`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http{'' if self._tls is None else 's'}://{host}:{self._started().port}"

    @property
    def requests(self) -> list[str]:
        """The requests so far, each as its method and path (`"GET /subjects"`), the oldest first; the last 10,000."""
        return list(self._started().requests)

    def fail(self, status: int, text: str = "", *, count: int = 1, after: float = 0.0) -> None:
        """Respond to the next requests with an error.

        Args:
            status: The HTTP status, such as 503, which is the error code of the body, too.
            text: The message of the body.
            count: How many requests.
            after: How many seconds each response takes.

        Raises:
            ClosedError: The registry is not running.
        """
        from ottla.testing._registry.server import Fault

        self._started().faults.extend([Fault(status, text, after)] * count)

    def delay(self, seconds: float, *, count: int = 1) -> None:
        """Apply the next requests, and delay each response.

        Args:
            seconds: How many seconds each response takes.
            count: How many requests.

        Raises:
            ClosedError: The registry is not running.
        """
        from ottla.testing._registry.server import Fault

        self._started().faults.extend([Fault(None, "", seconds)] * count)

    def clear_faults(self) -> None:
        """Remove every fault that has not happened yet.

        Raises:
            ClosedError: The registry is not running.
        """
        self._started().faults.clear()

    def _started(self) -> Server:
        if self._running is None:
            raise ClosedError("the registry is not running: call start(), or use it in a with statement")
        return self._running

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Registry({self.url!r})" if self._running else "Registry(not running)"
