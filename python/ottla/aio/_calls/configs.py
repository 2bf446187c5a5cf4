"""Configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, Union

from ottla import _admin as results
from ottla import _ottla
from ottla._admin import arguments

Resource: TypeAlias = Union["results.ConfigResource", tuple[str, str]]
"""What has a configuration."""
Changes: TypeAlias = Mapping[str, str | None] | Iterable["results.AlterConfigOp"]
"""Changes of its configurations."""


class Configs:
    """Calls about configurations."""

    __slots__ = ()
    _core: _ottla.AdminCore

    async def describe_configs(
        self,
        resources: Resource | Iterable[Resource],
        *,
        names: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[results.ConfigResource, list[results.ConfigEntry]]:
        """Describe configurations (KIP-133, Kafka 0.11 and later).

        A broker's configuration is requested from that broker.

        Args:
            resources: Topics, brokers and the like as `ConfigResource`s or pairs, such as `("TOPIC", "flights")`; one
                or several.
            names: Only these configurations; None for all.
            include_synonyms: Whether to return all places that set a configuration (Kafka 1.1 and later).
            include_documentation: Whether to return Kafka's documentation (KIP-569, Kafka 2.6 and later).
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Configurations by resource, sorted by name.

        Raises:
            NotFoundError: A topic does not exist.
            AuthorizationError: This client may not describe the configuration.
            ArgumentError: There is no such broker.
            ValueError: Kafka has no such type.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        described: dict[results.ConfigResource, list[results.ConfigEntry]]
        described = await self._core.call(
            "describe_configs",
            timeout,
            resources=arguments.resources(resources),
            names=None if names is None else list(names),
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )
        return described

    async def incremental_alter_configs(
        self,
        changes: Mapping[results.ConfigResource, Changes] | Mapping[tuple[str, str], Changes],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change configurations, and leave the others as they are (KIP-339, Kafka 2.3 and later).

        Args:
            changes: By resource, such as `("TOPIC", "flights")`: values by name, where None goes back to the default;
                or `AlterConfigOp`s, which also change lists.
            validate_only: Only checks whether the configurations could be changed.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Raises:
            NotFoundError: A topic does not exist.
            AuthorizationError: This client may not alter the configuration.
            KafkaError: `name` is `"INVALID_CONFIG"` for a name or value that brokers refuse.
            ValueError: Kafka has no such type or operation.
            UnsupportedError: The broker is older than Kafka 2.3.
            ClosedError: The client is closed.
        """
        await self._core.call(
            "incremental_alter_configs",
            timeout,
            changes=arguments.config_changes(changes),
            validate_only=validate_only,
        )

    async def list_config_resources(
        self, types: str | Iterable[str] = (), *, timeout: float | None = None
    ) -> results.Rows[results.ConfigResource]:
        """List resources that can have a configuration (KIP-1142, Kafka 4.1 and later).

        Args:
            types: Only resources of these types, such as `"GROUP"`; none for all. Brokers since Kafka 3.7 list
                `"CLIENT_METRICS"` (KIP-1000), as Java's `listClientMetricsResources` does.
            timeout: Seconds to wait at most, for the whole call. 0 does not wait; None waits `default.api.timeout.ms`.

        Returns:
            Resources, sorted.

        Raises:
            UnsupportedError: The broker is too old.
            ValueError: Kafka has no such type.
            ClosedError: The client is closed.
            KafkaError: A broker refused the request, or none responded in time.
        """
        found: results.Rows[results.ConfigResource]
        found = await self._core.call("list_config_resources", timeout, types=types)
        return found
