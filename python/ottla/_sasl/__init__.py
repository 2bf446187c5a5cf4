"""Authentication of clients in Python: tokens, documents signed for AWS, Kerberos tickets.

Threads of the Rust runtime never attach to Python. They put requests into a queue of the process and, if it was empty,
write to a file descriptor. A Python thread, which starts with the first such client, takes the requests and starts a
thread for each, because a request may wait for a server: authentications are few.

```text
connection's task ── request ──▶ SaslQueue ──▶ thread "ottla-sasl" ──▶ a thread for the request ── response ──▶ the task
```
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from ottla._background import PerProcess, watch
from ottla._ottla import SaslQueue
from ottla._sasl._failures import Refused, Unavailable, shown
from ottla.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ottla._ottla import SaslRequest

    class Provider(Protocol):
        """Serves the requests of one client's connections, from any thread."""

        def answer(self, request: SaslRequest) -> None:
            """Call `request.answer`, or raise."""

        def forget(self) -> None:
            """The broker rejected the credentials: do not return them again."""

        def end(self, connection: int) -> None:
            """The connection makes no further requests."""


class _Server:
    def __init__(self) -> None:
        self.queue = SaslQueue()
        watch(self.queue, self._serve, name="ottla-sasl")

    def _serve(self) -> None:
        for request in self.queue.drain():
            _dispatch(request)


def _dispatch(request: SaslRequest) -> None:
    try:
        if request.kind == "refused":
            request.provider.forget()
        elif request.kind == "ended":
            request.provider.end(request.connection)
        else:
            threading.Thread(target=serve, args=(request,), name=f"ottla-sasl-{request.kind}", daemon=True).start()
    except BaseException:  # noqa: BLE001 the other requests are still to be served
        sys.excepthook(*sys.exc_info())


def serve(request: SaslRequest) -> None:
    """Serve a request, or fail it with the reason.

    Nothing is raised: the error belongs to the connection.
    """
    try:
        request.provider.answer(request)
    except Unavailable as error:
        request.fail(str(error), passes=True)
    except Refused as error:
        request.fail(str(error))
    except BaseException as error:  # noqa: BLE001 a bug of ours, but the connection must fail with it
        request.fail(f"the {request.kind} could not be made: {shown(error)}")


_server = PerProcess(_Server)


def queue() -> SaslQueue:
    """Get the queue for a client that is being made; the first starts the thread."""
    return _server.get().queue


def provider(
    mechanism: str, settings: dict[str, str], login: dict[str, str], token: Callable[[], Any] | None
) -> Provider:
    """Make the provider for a client's settings.

    Args:
        mechanism: `OAUTHBEARER`, `AWS_MSK_IAM` or `GSSAPI`.
        settings: The properties of authentication that were given, by Kafka's names.
        login: The options of `sasl.jaas.config`.
        token: `sasl_token`.

    Raises:
        ConfigError: The settings have no source of tokens, or contradict each other.
    """
    # Imported when needed: most clients never authenticate, and importing ottla stays fast.
    if mechanism == "OAUTHBEARER":
        from ottla._sasl._tokens import Tokens

        return Tokens(_source(settings, login, token))
    if mechanism == "AWS_MSK_IAM":
        from ottla._sasl._aws import MskIam

        return MskIam(settings, login, token)
    if token is not None:
        raise ConfigError("sasl_token: belongs to OAUTHBEARER and AWS_MSK_IAM, not to GSSAPI: leave it out")
    from ottla._sasl._gssapi import Kerberos

    return Kerberos(settings)


def _source(settings: dict[str, str], login: dict[str, str], token: Callable[[], Any] | None) -> Callable[[], Any]:
    """The source of tokens."""
    endpoint = settings.get("sasl.oauthbearer.token.endpoint.url")
    is_oidc = settings.get("sasl.oauthbearer.method", "").lower() == "oidc" or bool(endpoint)
    if token is not None:
        if is_oidc:
            raise ConfigError("sasl_token: give either it or sasl.oauthbearer.token.endpoint.url")
        from ottla._sasl._tokens import Callback

        return Callback(token)
    if is_oidc:
        from ottla._sasl._oidc import Endpoint

        return Endpoint(settings, login)
    if any(name.startswith("unsecuredLogin") for name in login):
        from ottla._sasl._tokens import Unsecured

        return Unsecured(login)
    raise ConfigError(
        "sasl.mechanism: OAUTHBEARER needs tokens: pass sasl_token=callable, or set "
        "sasl.oauthbearer.token.endpoint.url with sasl.oauthbearer.client.credentials.client.id and .secret"
    )
