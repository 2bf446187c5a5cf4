# Written by scripts/unasync.py from python/ottla/aio/_calls/security.py. Change that file, and run the script.
"""Access control lists, users, quotas and delegation tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla import _admin as results
from ottla import _ottla
from ottla._admin import arguments
from ottla._numbers import milliseconds


class Security:
    """Calls about who may do what, and how much of it."""

    __slots__ = ()
    _core: _ottla.AdminCore

    def describe_acls(
        self, acl_filter: results.AclFilter | None = None, *, timeout: float | None = None
    ) -> results.Rows[results.AclBinding]:
        """List rules of access control lists (Kafka 0.11 and later).

        Args:
            acl_filter: Which; None for all.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Rules, sorted.

        Raises:
            AuthorizationError: This client may not describe the cluster.
            KafkaError: `name` is `"SECURITY_DISABLED"` if the brokers have no authorizer.
            ValueError: Kafka has no such type, operation or permission.
            ClosedError: The client is closed.
        """
        found: results.Rows[results.AclBinding]
        found = self._core.call("describe_acls", timeout, filter=acl_filter or results.AclFilter()).wait()
        return found

    def create_acls(
        self, acls: results.AclBinding | Iterable[results.AclBinding], *, timeout: float | None = None
    ) -> None:
        """Add rules to access control lists (Kafka 0.11 and later).

        A rule that is there stays.

        Args:
            acls: Rules, one or several.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AuthorizationError: This client may not alter the cluster.
            KafkaError: `name` is `"SECURITY_DISABLED"` if the brokers have no authorizer.
            ValueError: Kafka has no such type, operation or permission.
            ClosedError: The client is closed.
        """
        rows = [acls] if isinstance(acls, results.AclBinding) else list(acls)
        self._core.call("create_acls", timeout, acls=rows).wait()

    def delete_acls(
        self, filters: results.AclFilter | Iterable[results.AclFilter], *, timeout: float | None = None
    ) -> dict[results.AclFilter, results.Rows[results.AclBinding]]:
        """Delete rules of access control lists (Kafka 0.11 and later).

        Args:
            filters: Which, one or several.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The rules that were deleted, by filter.

        Raises:
            AuthorizationError: This client may not alter the cluster.
            KafkaError: `name` is `"SECURITY_DISABLED"` if the brokers have no authorizer.
            ValueError: Kafka has no such type, operation or permission.
            ClosedError: The client is closed.
        """
        rows = [filters] if isinstance(filters, results.AclFilter) else list(filters)
        deleted: dict[results.AclFilter, results.Rows[results.AclBinding]]
        deleted = self._core.call("delete_acls", timeout, filters=rows).wait()
        return deleted

    def describe_user_scram_credentials(
        self, users: str | Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, list[results.ScramCredential]]:
        """Describe the SCRAM credentials of users (KIP-554, Kafka 2.7 and later).

        Args:
            users: Names of users; None for all that have a credential.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Credentials by user, without their secrets.

        Raises:
            NotFoundError: A user has no credential.
            AuthorizationError: This client may not describe the cluster.
            UnsupportedError: The brokers are too old.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        if users is not None:
            users = [users] if isinstance(users, str) else list(users)
        found: dict[str, list[results.ScramCredential]] = {}
        # Kafka's protocol would take an empty list for all users.
        if users is None or users:
            found = self._core.call("describe_user_scram_credentials", timeout, users=users).wait()
        return found

    def alter_user_scram_credentials(
        self,
        alterations: Iterable[results.ScramUpsertion | results.ScramDeletion],
        *,
        timeout: float | None = None,
    ) -> None:
        """Set and delete credentials for SCRAM (KIP-554, Kafka 2.7 and later).

        Args:
            alterations: `ScramUpsertion`s and `ScramDeletion`s. Of a user and a mechanism there is one.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: A user has no such credential to delete.
            AuthorizationError: This client may not alter the cluster.
            KafkaError: `name` is `"UNACCEPTABLE_CREDENTIAL"` for a wrong number of iterations.
            UnsupportedError: The brokers are too old.
            ClosedError: The client is closed.
        """
        rows = arguments.scram_alterations(alterations)
        self._core.call("alter_user_scram_credentials", timeout, alterations=rows).wait()

    def describe_client_quotas(
        self,
        entity: Mapping[str, str | None] | None = None,
        *,
        strict: bool = False,
        timeout: float | None = None,
    ) -> results.Rows[results.ClientQuota]:
        """Describe quotas of users, client ids and addresses (KIP-546, Kafka 2.6 and later).

        Args:
            entity: Only entities with these names by type, such as `{"user": "alice"}`: None is the default of a type,
                and `"*"` any name. Without it, all.
            strict: Whether an entity with other types too does not match.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Quotas, by entity.

        Raises:
            AuthorizationError: This client may not describe the cluster's configuration.
            UnsupportedError: The brokers are too old.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        found: results.Rows[results.ClientQuota]
        found = self._core.call(
            "describe_client_quotas", timeout, filter=arguments.quota_filter(entity or {}), strict=strict
        ).wait()
        return found

    def alter_client_quotas(
        self,
        alterations: Iterable[tuple[Mapping[str, str | None], Mapping[str, float | None]]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change quotas of users, client ids and addresses (KIP-546, Kafka 2.6 and later).

        Args:
            alterations: Pairs of an entity, such as `{"user": "alice"}`, and its quotas by name, such as
                `{"producer_byte_rate": 1e6}`, where None removes a quota. None as a name is the default of its type.
            validate_only: Only checks whether the quotas could be changed.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            AuthorizationError: This client may not alter the cluster's configuration.
            UnsupportedError: The brokers are too old.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time. Keys of `failures` are tuples of pairs,
                such as `(("user", "alice"),)`.
        """
        rows = arguments.quota_alterations(alterations)
        self._core.call("alter_client_quotas", timeout, alterations=rows, validate_only=validate_only).wait()

    def create_delegation_token(
        self,
        *,
        owner: tuple[str, str] | None = None,
        renewers: Iterable[tuple[str, str]] = (),
        max_lifetime: float | None = None,
        timeout: float | None = None,
    ) -> results.DelegationToken:
        """Create a delegation token (KIP-48, KIP-373).

        Args:
            owner: Type and name of whom it stands for, such as `("User", "alice")`; None for this client itself. For
                another, this client needs the permission to create tokens for it, and brokers of Kafka 3.3 or later.
            renewers: Types and names of who may renew it, besides its owner.
            max_lifetime: Seconds that it lives at most; None for as long as the broker allows.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The token, with its secret.

        Raises:
            UnsupportedError: The broker is older than Kafka 1.1.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        lifetime = milliseconds("max_lifetime", max_lifetime)
        made: results.DelegationToken = self._core.call(
            "create_delegation_token", timeout, owner=owner, renewers=list(renewers), max_lifetime_ms=lifetime
        ).wait()
        return made

    def renew_delegation_token(
        self, token: results.DelegationToken | bytes, period: float | None = None, *, timeout: float | None = None
    ) -> int:
        """Renew a delegation token.

        Args:
            token: The token, or its HMAC.
            period: Seconds from now; None for as long as the broker allows.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            When it ends, in milliseconds since 1970 UTC.

        Raises:
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        hmac = token if isinstance(token, bytes) else token.hmac
        millis = milliseconds("period", period)
        expires: int = self._core.call("renew_delegation_token", timeout, hmac=hmac, period_ms=millis).wait()
        return expires

    def expire_delegation_token(
        self, token: results.DelegationToken | bytes, period: float | None = None, *, timeout: float | None = None
    ) -> int:
        """Expire a delegation token.

        Args:
            token: The token, or its HMAC.
            period: Seconds from now; None for at once.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            When it ends, in milliseconds since 1970 UTC.

        Raises:
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        hmac = token if isinstance(token, bytes) else token.hmac
        millis = milliseconds("period", period)
        expires: int = self._core.call("expire_delegation_token", timeout, hmac=hmac, period_ms=millis).wait()
        return expires

    def describe_delegation_tokens(
        self, owners: Iterable[tuple[str, str]] | None = None, *, timeout: float | None = None
    ) -> list[results.DelegationToken]:
        """Describe the delegation tokens that this client may see, with their secrets.

        Args:
            owners: Types and names of owners; None for all.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            The tokens; none if the client may see none.

        Raises:
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        wanted = None if owners is None else list(owners)
        found: list[results.DelegationToken]
        found = self._core.call("describe_delegation_tokens", timeout, owners=wanted).wait()
        return found
