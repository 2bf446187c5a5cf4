"""AWS credentials from botocore, which also knows SSO and `credential_process`, where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore import exceptions
from botocore.session import Session

from ottla._sasl._failures import Refused, Unavailable, shown
from ottla._sasl._sigv4 import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable

_TOO_MANY = 429
_ERRORS = 500


def finder(profile: str | None, region: str | None) -> Callable[[], Credentials]:
    """Make a function that returns the current credentials.

    botocore keeps and refreshes what it found, so the function is called for each document.

    Args:
        profile: The profile to take; None for botocore's default chain.
        region: The region of AWS's token service; None for that of the profile.
    """
    session = Session(profile=profile)
    if region is not None:
        session.set_config_variable("region", region)

    def find() -> Credentials:
        try:
            found = session.get_credentials()
            frozen = None if found is None else found.get_frozen_credentials()
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            kind = Unavailable if _may_pass(error) else Refused
            raise kind(f"botocore found no AWS credentials: {shown(error)}") from None
        if frozen is None:
            raise Refused("botocore found no AWS credentials: run `aws configure list` to see where it looks")
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token or None)

    return find


def _may_pass(error: Exception) -> bool:
    if isinstance(error, exceptions.ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return bool(status == _TOO_MANY or status >= _ERRORS)
    is_transport = isinstance(error, (exceptions.HTTPClientError, exceptions.MetadataRetrievalError))
    return is_transport and not isinstance(error, exceptions.SSLError)
