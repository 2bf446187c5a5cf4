"""From the parameters that all clients have to ottla's properties, and what connects and authenticates."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from ottla import aio
from ottla import errors as native
from ottla.compat.aiokafka._tls import properties_of
from ottla.compat.aiokafka.abc import AbstractTokenProvider

_PROTOCOLS: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_MECHANISMS: Final = frozenset({"PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"})
_PORT: Final = 9092


@dataclass(frozen=True)
class Connection:
    """How a client connects.

    Attributes:
        servers: What the program passed as `bootstrap_servers`.
        properties: ottla's properties, by Kafka's names.
        request_timeout: Seconds until a call that needs a broker fails.
        metadata_max_age: Seconds until metadata are fetched again.
        retry_backoff: Seconds before a retry.
    """

    servers: str | list[str]
    properties: dict[str, Any]
    request_timeout: float
    metadata_max_age: float
    retry_backoff: float

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The brokers to begin with."""
        return _addresses(self.servers)


def connection(
    *,
    bootstrap_servers: str | Iterable[str],
    client_id: str | None,
    metadata_max_age_ms: int,
    request_timeout_ms: int,
    retry_backoff_ms: int,
    security_protocol: str,
    ssl_context: ssl.SSLContext | None,
    connections_max_idle_ms: int | None,
    sasl_mechanism: str,
    sasl_plain_username: str | None,
    sasl_plain_password: str | None,
    sasl_kerberos_service_name: str,
    sasl_kerberos_domain_name: str | None,
    sasl_oauth_token_provider: AbstractTokenProvider | None,
) -> Connection:
    """Check and translate the parameters.

    Raises:
        ValueError: A parameter has a value that is not allowed, or that ottla does not support.
    """
    if security_protocol not in _PROTOCOLS:
        raise ValueError(
            "`security_protocol` should be SSL or PLAINTEXT, or one of them after SASL_; it is "
            + repr(security_protocol)
        )
    if security_protocol in {"SSL", "SASL_SSL"} and ssl_context is None:
        raise ValueError(
            f"`ssl_context` is mandatory if security_protocol=='{security_protocol}': make one with "
            "aiokafka.helpers.create_ssl_context"
        )
    servers = bootstrap_servers if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    properties: dict[str, Any] = {
        "bootstrap.servers": [
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in _addresses(servers)
        ],
        "metadata.max.age.ms": metadata_max_age_ms,
        "request.timeout.ms": request_timeout_ms,
        "default.api.timeout.ms": request_timeout_ms,
        "retry.backoff.ms": retry_backoff_ms,
        "retry.backoff.max.ms": max(1000, retry_backoff_ms),
        "connections.max.idle.ms": -1 if connections_max_idle_ms is None else connections_max_idle_ms,
        "security.protocol": security_protocol,
    }
    if client_id is not None:
        properties["client.id"] = client_id
    if ssl_context is not None and security_protocol.endswith("SSL"):
        properties.update(properties_of(ssl_context))
    if security_protocol.startswith("SASL"):
        properties.update(
            _sasl(
                sasl_mechanism,
                sasl_plain_username,
                sasl_plain_password,
                sasl_kerberos_service_name,
                sasl_kerberos_domain_name,
                sasl_oauth_token_provider,
            )
        )
    return Connection(
        servers, properties, request_timeout_ms / 1000, metadata_max_age_ms / 1000, retry_backoff_ms / 1000
    )


def _sasl(
    mechanism: str,
    username: str | None,
    password: str | None,
    service: str,
    domain: str | None,
    provider: AbstractTokenProvider | None,
) -> dict[str, Any]:
    if mechanism not in _MECHANISMS:
        raise ValueError(f"sasl_mechanism must be one of {', '.join(sorted(_MECHANISMS))}, and is {mechanism!r}")
    # aiokafka sends passwords over plain connections without a further option.
    found: dict[str, Any] = {"sasl.mechanism": mechanism, "sasl.allow.plaintext": True}
    if mechanism == "OAUTHBEARER":
        if not isinstance(provider, AbstractTokenProvider):
            raise ValueError("sasl_oauth_token_provider must be an aiokafka.abc.AbstractTokenProvider for OAUTHBEARER")
        found["sasl.token"] = _token_of(provider)
    elif mechanism == "GSSAPI":
        found["sasl.kerberos.service.name"] = service
        if domain is not None:
            found["sasl.kerberos.domain.name"] = domain
    else:
        if username is None or password is None:
            raise ValueError(f"sasl_plain_username and sasl_plain_password required for {mechanism} sasl")
        found |= {"sasl.username": username, "sasl.password": password}
    return found


def _token_of(provider: AbstractTokenProvider) -> Any:
    async def token() -> tuple[str, dict[str, str]]:
        return await provider.token(), dict(provider.extensions())

    return token


def _addresses(servers: str | list[str]) -> list[tuple[str, int]]:
    """Hosts and ports; the port may be missing."""
    listed = servers.split(",") if isinstance(servers, str) else servers
    found = []
    for each in (part.strip() for part in listed):
        host, colon, port = each.rpartition(":")
        if each.startswith("[") and each.endswith("]"):
            found.append((each[1:-1], _PORT))
        elif colon and port.isdigit():
            found.append((host.strip("[]"), int(port)))
        else:
            found.append((each.strip("[]"), _PORT))
    return found


def loop_of(loop: asyncio.AbstractEventLoop | None, api_version: str | None) -> asyncio.AbstractEventLoop:
    """The loop of a client; both parameters are deprecated, and `api_version` has no effect in aiokafka either.

    Raises:
        RuntimeError: No loop runs, and none was passed.
    """
    if api_version is not None:
        _deprecated("`api_version` is deprecated since aiokafka 0.13.0 and has no effect: leave it out")
    if loop is not None:
        _deprecated("`loop` is deprecated since aiokafka 0.7.1: make the client where the loop runs")
        return loop
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("The object should be created within an async function or provide loop directly.") from None


def _deprecated(text: str) -> None:
    warnings.warn(text, DeprecationWarning, stacklevel=4)


async def is_any_reachable(addresses: list[tuple[str, int]], timeout: float) -> bool:
    """Whether something listens at one of the addresses: a client of aiokafka fails at once if nothing does."""
    for host, port in addresses:
        with contextlib.suppress(OSError, TimeoutError):
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), timeout)
            writer.close()
            return True
    return False


def abandon(client: aio.Admin | aio.Consumer | aio.Producer) -> None:
    """Disconnect without waiting: the client of aiokafka's kind has warned that nobody closed it."""
    with contextlib.suppress(native.KafkaError):
        client._core.close(0).wait()


def as_value_error(error: native.ConfigError) -> ValueError:
    """The exception of a constructor for an option that ottla does not accept."""
    return ValueError(str(error))
