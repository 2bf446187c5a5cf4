"""How a test describes a listener of the embedded broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.errors import ConfigError

FORM = (
    "PROTOCOL[://HOST:PORT] [name=NAME] [mechanisms=A,B] [client-auth=none|requested|required] [principal=dn|cn] "
    "[advertised=HOST:PORT]"
)


@dataclass(frozen=True)
class Listener:
    """One listener of the embedded broker.

    Attributes:
        protocol: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        name: Its name; that of the protocol if not given.
        mechanisms: SASL mechanisms: `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER`, `AWS_MSK_IAM`. Without
            it, all for which the broker has users or keys. `OAUTHBEARER` without a key takes unsecured tokens, so it
            must be named.
        client_auth: Whether it requests client certificates: `none`, `requested` or `required`.
        principal: The principal of a client certificate: `dn` is the whole distinguished name
            (`User:CN=alice,O=Example`), which is Kafka's default, `cn` the common name (`User:alice`).
        advertised: The `host:port` that clients connect to, if it differs from the listening address.
    """

    protocol: str = "PLAINTEXT"
    host: str = "127.0.0.1"
    port: int = 0
    name: str | None = None
    mechanisms: Sequence[str] | None = None
    client_auth: str = "none"
    principal: str = "dn"
    advertised: str | None = None

    @classmethod
    def parse(cls, text: str) -> Listener:
        """Read a listener from a line such as `SASL_SSL://127.0.0.1:9093 name=OUTSIDE mechanisms=PLAIN,SCRAM-SHA-256`.

        Args:
            text: The protocol, then the address and settings, which may be left out.

        Returns:
            The listener.

        Raises:
            ConfigError: The line does not have the form `PROTOCOL[://HOST:PORT] [KEY=VALUE...]`, where the keys are
                `name`, `mechanisms`, `client-auth`, `principal` and `advertised`.
        """
        words = text.split()
        if not words:
            raise ConfigError(f"a listener is empty; its form is {FORM}")
        protocol, _, address = words[0].partition("://")
        found: dict[str, Any] = {"protocol": protocol}
        if address:
            found["host"], found["port"] = _address(address, words[0])
        for word in words[1:]:
            key, separator, value = word.partition("=")
            if not separator or key not in {"name", "mechanisms", "client-auth", "principal", "advertised"}:
                raise ConfigError(f"listener {text!r}: {word!r} is not understood; its form is {FORM}")
            found[key.replace("-", "_")] = value.split(",") if key == "mechanisms" else value
        return cls(**found)

    def settings(self) -> dict[str, object]:
        """Return the listener as the compiled broker takes it.

        Returns:
            Settings by name.

        Raises:
            ConfigError: `principal` is not `dn` or `cn`, or `advertised` has no `HOST:PORT`.
        """
        if self.principal not in {"dn", "cn"}:
            raise ConfigError(f"a listener's principal is dn or cn, and not {self.principal!r}")
        return {
            "name": self.name or self.protocol.upper(),
            "protocol": self.protocol,
            "host": self.host,
            "port": self.port,
            "advertised": _address(self.advertised, self.advertised) if self.advertised else None,
            "mechanisms": None if self.mechanisms is None else list(self.mechanisms),
            "client_auth": self.client_auth,
            "principal_is_common_name": self.principal == "cn",
        }


class OpenListener(NamedTuple):
    """A listener of a running broker.

    Attributes:
        name: Its name.
        protocol: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
        bootstrap_servers: Its address, as `host:port`.
        mechanisms: The SASL mechanisms that it offers.
        client_auth: Whether it requests client certificates: `none`, `requested` or `required`.
    """

    name: str
    protocol: str
    bootstrap_servers: str
    mechanisms: list[str]
    client_auth: str


def _address(given: str, where: str) -> tuple[str, int]:
    host, separator, port = given.rpartition(":")
    if not separator or not host or not port.isdecimal() or int(port) >= 2**16:
        raise ConfigError(f"{where!r} has no HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)
