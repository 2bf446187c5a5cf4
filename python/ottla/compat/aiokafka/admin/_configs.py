"""Configurations of topics and brokers, in the form of aiokafka's responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla import ConfigEntry, aio
from ottla import ConfigResource as NativeResource
from ottla import errors as native
from ottla.compat.aiokafka.admin._responses import named
from ottla.compat.aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

# The protocol's number of each place that sets a configuration.
_SOURCES: Final = {
    "DYNAMIC_TOPIC_CONFIG": 1,
    "DYNAMIC_BROKER_CONFIG": 2,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": 3,
    "STATIC_BROKER_CONFIG": 4,
    "DEFAULT_CONFIG": 5,
}
_RESOURCE: Final = ("error_code", "error_message", "resource_type", "resource_name", "config_entries")
_ENTRY: Final = ("config_names", "config_value", "read_only", "config_source", "is_sensitive", "config_synonyms")
_SYNONYM: Final = ("config_name", "config_value", "config_source")


class Configs(NamedTuple):
    """A response of `describe_configs` or `alter_configs`.

    Attributes:
        resources: An error code, its text, the type and the name of each resource; for `describe_configs` also a list
            of tuples: name, value, whether it is read-only, the number of its source, whether it is secret, synonyms.
        throttle_time_ms: How long the broker asked to wait; 0 for `describe_configs`.
    """

    resources: list[tuple[Any, ...]]
    throttle_time_ms: int = 0

    def to_object(self) -> dict[str, Any]:
        """The response as dicts."""
        resources = named(_RESOURCE, self.resources)
        for each in resources:
            if "config_entries" in each:
                each["config_entries"] = named(_ENTRY, each["config_entries"])
                for entry in each["config_entries"]:
                    entry["config_synonyms"] = named(_SYNONYM, entry["config_synonyms"])
        return {"throttle_time_ms": self.throttle_time_ms, "resources": resources}


def _native(resource: ConfigResource) -> NativeResource:
    return NativeResource(resource.resource_type.name, str(resource.name))


def _by_broker(resources: Sequence[ConfigResource]) -> dict[str, list[ConfigResource]]:
    """Resources of brokers, which aiokafka sends to each by itself."""
    made: dict[str, list[ConfigResource]] = {}
    for resource in resources:
        if resource.resource_type is ConfigResourceType.BROKER:
            made.setdefault(str(resource.name), []).append(resource)
    return made


def _topics(resources: Sequence[ConfigResource]) -> list[ConfigResource]:
    return [each for each in resources if each.resource_type is not ConfigResourceType.BROKER]


async def describe(admin: aio.Admin, resources: Sequence[ConfigResource], with_synonyms: bool) -> list[Configs]:
    """Describe configurations: a response for each broker, and one for all topics."""
    parts = [*_by_broker(resources).values(), _topics(resources)]
    return [Configs([await _described(admin, each, with_synonyms) for each in part]) for part in parts if part]


async def _described(admin: aio.Admin, resource: ConfigResource, with_synonyms: bool) -> tuple[Any, ...]:
    names = list(resource.configs) if resource.configs else None
    code, text, found = await _found(admin, resource, names, with_synonyms)
    return code, text, int(resource.resource_type), str(resource.name), [_entry(each) for each in found]


async def _found(
    admin: aio.Admin, resource: ConfigResource, names: list[str] | None, with_synonyms: bool
) -> tuple[int, str | None, list[ConfigEntry]]:
    of = _native(resource)
    try:
        found = await admin.describe_configs(of, names=names, include_synonyms=with_synonyms)
    except native.KafkaError as error:
        code, text = _refusal(error)
        return code, text, []
    return 0, None, found[of]


def _entry(found: ConfigEntry) -> tuple[Any, ...]:
    synonyms = [(each.name, each.value, _SOURCES.get(each.source, 0)) for each in found.synonyms]
    source = _SOURCES.get(found.source, 0)
    return found.name, found.value, found.is_read_only, source, found.is_sensitive, synonyms


def _refusal(error: native.KafkaError) -> tuple[int, str]:
    """The code and the text of a response.

    Raises:
        KafkaError: There is no response.
    """
    if error.code is None:
        raise error
    return error.code, error.cause or str(error)


async def alter(admin: aio.Admin, resources: Sequence[ConfigResource]) -> list[Configs]:
    """Send AlterConfigs: a response for all topics, and one for each broker."""
    parts: list[tuple[int | None, list[ConfigResource]]] = [(None, _topics(resources))]
    parts += [(int(name), of) for name, of in _by_broker(resources).items()]
    return [await _altered(admin, broker, part) for broker, part in parts]


async def _altered(admin: aio.Admin, broker: int | None, resources: Sequence[ConfigResource]) -> Configs:
    message = {"resources": [_row(each) for each in resources], "validateOnly": False}
    response = await admin.request("AlterConfigs", message, broker=broker)
    names = ("errorCode", "errorMessage", "resourceType", "resourceName")
    rows = [tuple(row[name] for name in names) for row in response["responses"]]
    return Configs(rows, response["throttleTimeMs"])


def _row(resource: ConfigResource) -> dict[str, Any]:
    wanted = resource.configs or {}
    if not isinstance(wanted, Mapping):
        raise TypeError(f"alter_configs takes a dict as configs of a ConfigResource, not {type(wanted).__name__}")
    configs = [{"name": name, "value": value} for name, value in wanted.items()]
    return {"resourceType": int(resource.resource_type), "resourceName": str(resource.name), "configs": configs}
