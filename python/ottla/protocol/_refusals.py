"""Responses that carry an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla import _ottla
from ottla.protocol._apis import key_of
from ottla.protocol._messages import Form


def error_response(
    api: str,
    version: int,
    request: Mapping[str, Any],
    code: int,
    *,
    message: str | None = None,
    throttle_time_ms: int = 0,
    form: Form = "python",
) -> dict[str, Any]:
    """Make the response by which a broker refuses a request, as Kafka's `AbstractRequest.getErrorResponse` does.

    The code stands at the top of the response, or in an element for each topic, partition, group or resource of the
    request, or in both: that depends on the API and the version. The elements name the topics and partitions of the
    request and hold no data. A few versions have no place for an error, such as DescribeLogDirs 0 to 2, and an empty
    request may get an empty response.

    ```python
    >>> from ottla import protocol
    >>> request = {"topics": [{"name": "flights", "partitions": [{"partitionIndex": 3}]}]}
    >>> response = protocol.error_response("ListOffsets", 1, request, protocol.ErrorCode.NOT_LEADER_OR_FOLLOWER)
    >>> response["topics"]
    [{'name': 'flights', 'partitions': [{'partitionIndex': 3, 'errorCode': 6, 'timestamp': -1, 'offset': -1}]}]

    ```

    Args:
        api: The API's name, such as `"Fetch"`: a key of `APIS`.
        version: The version of the request, and so of the response.
        request: What is refused, as for `encode`.
        code: The error, an `ErrorCode` or any number of 16 bits.
        message: The error's text, if the response has a place for it; None is an empty text if that place takes no
            null.
        throttle_time_ms: How long the client must wait, in milliseconds, if the response has a place for it.
        form: What `request` is, and what comes.

    Returns:
        The response, ready for `encode_response`. A Produce request with acks 0 gets one too, although no client waits
        for it.

    Raises:
        ProtocolError: There is no such API or version, the request does not encode, a number is out of range, or the
            message is above 32,767 bytes.
    """
    return _ottla.error_response(key_of(api), version, request, code, message, throttle_time_ms, form)
