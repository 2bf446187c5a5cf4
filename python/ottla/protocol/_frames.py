"""Frames: the units that go over a connection, each a length, a header and a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla import _ottla
from ottla._types import Buffer
from ottla.protocol._apis import key_of, protocol_error
from ottla.protocol._messages import Form


@dataclass(frozen=True)
class Frame:
    """What a frame holds.

    Attributes:
        api: The API's name, a key of `APIS`.
        version: The version of the message.
        correlation_id: The number that ties a response to its request.
        client_id: The name that the client gives itself; None in responses, and in requests without one.
        message: The request or response.
    """

    api: str
    version: int
    correlation_id: int
    client_id: str | None
    message: dict[str, Any]


def encode_request(
    api: str,
    version: int,
    message: Mapping[str, Any],
    *,
    correlation_id: int = 0,
    client_id: str | None = None,
    form: Form = "python",
) -> bytes:
    """Write a request as it goes over a connection: its length, the header of the API and version, the message.

    ```python
    >>> from ottla import protocol
    >>> protocol.encode_request("ApiVersions", 0, {}, correlation_id=7, client_id="me").hex(" ")
    '00 00 00 0c 00 12 00 00 00 00 00 07 00 02 6d 65'

    ```

    Args:
        api: The API's name, such as `"Fetch"`: a key of `APIS`.
        version: The version to write.
        message: The request, as for `encode`.
        correlation_id: The number that its response will carry.
        client_id: The name that the client gives itself; ControlledShutdown 0 has no place for it.
        form: What `message` is.

    Returns:
        The frame, its 4 bytes of length in front.

    Raises:
        ProtocolError: There is no such API or version, or as for `encode`.
    """
    return _ottla.encode_request(key_of(api), version, message, _int32(correlation_id), client_id, form)


def encode_response(
    api: str, version: int, message: Mapping[str, Any], *, correlation_id: int = 0, form: Form = "python"
) -> bytes:
    """Write a response as it goes over a connection: its length, the header of the API and version, the message.

    Args:
        api: The API's name: a key of `APIS`.
        version: The version of its request.
        message: The response, as for `encode`.
        correlation_id: The correlation id of the request.
        form: What `message` is.

    Returns:
        The frame, its 4 bytes of length in front.

    Raises:
        ProtocolError: There is no such API or version, or as for `encode`.
    """
    return _ottla.encode_response(key_of(api), version, message, _int32(correlation_id), form)


def decode_frame(data: Buffer, *, response_to: tuple[str, int] | None = None, form: Form = "python") -> Frame:
    """Read a frame.

    A request contains its API and version, a response does not.

    A broker that does not know the version of an ApiVersions request returns error 35 in version 0, whichever version
    was requested (KIP-511); the frame then has version 0.

    ```python
    >>> from ottla import protocol
    >>> protocol.decode_frame(bytes.fromhex("0000000c 00120000 00000007 0002 6d65"))
    Frame(api='ApiVersions', version=0, correlation_id=7, client_id='me', message={})
    >>> protocol.decode_frame(bytes.fromhex("0000000a 00000007 0023 00000000"), response_to=("ApiVersions", 4)).message
    {'errorCode': 35, 'apiKeys': []}

    ```

    Args:
        data: One whole frame, its 4 bytes of length in front.
        response_to: The API and the version of the request of this response; None if the frame is a request.
        form: The form of the decoded message.

    Returns:
        The header's fields and the message.

    Raises:
        ProtocolError: The bytes are not one whole frame, the API or version is not known here, or the message does not
            decode; bytes left over count as well.
    """
    expected = None if response_to is None else (key_of(response_to[0]), response_to[1])
    return Frame(*_ottla.decode_frame(data, expected, form))


def _int32(correlation_id: int) -> int:
    if not -(2**31) <= correlation_id < 2**31:
        raise protocol_error(f"correlation_id: {correlation_id} is not an int32, from {-(2**31)} to {2**31 - 1}")
    return correlation_id
