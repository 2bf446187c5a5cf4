"""The table of APIs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

from ottla import _ottla
from ottla.errors import ProtocolError
from ottla.protocol._messages import Versions


@dataclass(frozen=True)
class Api:
    """An API of the protocol: a request and its response, in the same versions.

    Attributes:
        key: Its number on the wire.
        name: Kafka's name, such as `"Fetch"`; the messages are `"FetchRequest"` and `"FetchResponse"`.
        versions: The versions that ottla speaks.
        flexible: The first version with compact lengths and tagged fields (KIP-482); None if no version has them.
        unstable: Whether brokers serve the last version only if `unstable.api.versions.enable` is set.
        listeners: Which nodes serve it: `"broker"`, `"controller"`, before Kafka 4.0 also `"zkBroker"`.
    """

    key: int
    name: str
    versions: Versions
    flexible: int | None
    unstable: bool
    listeners: tuple[str, ...]

    def is_flexible(self, version: int) -> bool:
        """Return whether a version has compact lengths and tagged fields (KIP-482).

        Args:
            version: A version of the API.

        Returns:
            True from the version `flexible` on.
        """
        return self.flexible is not None and version >= self.flexible

    def request_header(self, version: int) -> int:
        """Return the version of `RequestHeader` before a request of this version.

        Args:
            version: A version of the API.

        Returns:
            2 if the version is flexible, otherwise 1; 0 for ControlledShutdown 0.

        Raises:
            ProtocolError: ottla does not speak this version.
        """
        request, _ = _ottla.header_versions(self.key, version)
        return request

    def response_header(self, version: int) -> int:
        """Return the version of `ResponseHeader` before a response of this version.

        Args:
            version: A version of the API.

        Returns:
            1 if the version is flexible, otherwise 0; always 0 for ApiVersions (KIP-511).

        Raises:
            ProtocolError: ottla does not speak this version.
        """
        _, response = _ottla.header_versions(self.key, version)
        return response


def _table() -> dict[str, Api]:
    return {
        name: Api(key, name, Versions(low, high), flexible, unstable, tuple(listeners))
        for key, name, low, high, flexible, unstable, listeners in _ottla.apis()
    }


APIS: Mapping[str, Api] = MappingProxyType(_table())
"""Every API of Kafka 0.8 to 4.4 by its name, in the order of the keys."""


def key_of(api: str) -> int:
    """The number of the API of this name.

    Raises:
        ProtocolError: No API has this name; the error names the nearest one.
    """
    known = APIS.get(api)
    if known is not None:
        return known.key
    nearest = get_close_matches(str(api), APIS, n=1, cutoff=0.0)
    raise protocol_error(f"no API is named {api!r}; the nearest is {nearest[0]!r}")


def protocol_error(text: str) -> ProtocolError:
    """The error for something that the protocol cannot express."""
    error = ProtocolError(text)
    error.cause = text
    return error
