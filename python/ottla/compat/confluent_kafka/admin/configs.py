"""Calls about configurations."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import ottla
from ottla import errors
from ottla.compat.confluent_kafka import constants
from ottla.compat.confluent_kafka.admin import results
from ottla.compat.confluent_kafka.admin.base import AdminBase
from ottla.compat.confluent_kafka.admin.checks import check_incremental, check_options, check_resources
from ottla.compat.confluent_kafka.errors import KafkaError, failure, to_kafka_error

# By the number of a ResourceType: Kafka's name of the type of what has a configuration, and the protocol's number.
_TYPES: Final = {
    constants.RESOURCE_TOPIC: ("TOPIC", 2),
    constants.RESOURCE_BROKER: ("BROKER", 4),
    constants.RESOURCE_GROUP: ("GROUP", 32),
}
_SOURCES: Final = {
    "DYNAMIC_TOPIC_CONFIG": constants.CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG,
    "DYNAMIC_BROKER_CONFIG": constants.CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": constants.CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG,
    "STATIC_BROKER_CONFIG": constants.CONFIG_SOURCE_STATIC_BROKER_CONFIG,
    "DEFAULT_CONFIG": constants.CONFIG_SOURCE_DEFAULT_CONFIG,
    "GROUP_CONFIG": constants.CONFIG_SOURCE_GROUP_CONFIG,
}


class ConfigCalls(AdminBase):
    """Describe and alter configurations of topics, brokers and groups."""

    def describe_configs(
        self,
        resources: Any,
        future: Any,
        request_timeout: float | None = None,
        broker: int | None = None,
    ) -> None:
        """Describe configurations.

        Args:
            resources: A list of ConfigResource.
            future: Gets a dict of dicts of ConfigEntry by ConfigResource, whose `error` is set if it failed.
            request_timeout: Seconds to wait at most.
            broker: The broker to ask; ottla chooses it by the resource.
        """
        self._ottla_open()
        check_resources(resources)
        check_options(False, broker)
        self._ottla_run("describe_configs", future, request_timeout, partial(_describe, resources))

    def alter_configs(
        self,
        resources: Any,
        future: Any,
        validate_only: bool = False,
        request_timeout: float | None = None,
        broker: int | None = None,
    ) -> None:
        """Replace configurations: what a resource does not set goes back to its default.

        Args:
            resources: A list of ConfigResource with `set_config`.
            future: Gets a dict of None by ConfigResource, whose `error` is set if it failed.
            validate_only: Whether to check only.
            request_timeout: Seconds to wait at most.
            broker: The broker to ask; ottla chooses it by the resource.
        """
        self._ottla_open()
        check_resources(resources)
        check_options(validate_only, broker)
        self._ottla_run("alter_configs", future, request_timeout, partial(_replace, resources, validate_only))

    def incremental_alter_configs(
        self,
        resources: Any,
        future: Any,
        validate_only: bool = False,
        request_timeout: float | None = None,
        broker: int | None = None,
    ) -> None:
        """Change configurations and leave the others as they are.

        Args:
            resources: A list of ConfigResource with `incremental_configs`.
            future: Gets a dict of None by ConfigResource, whose `error` is set if it failed.
            validate_only: Whether to check only.
            request_timeout: Seconds to wait at most.
            broker: The broker to ask; ottla chooses it by the resource.
        """
        self._ottla_open()
        check_resources(resources)
        check_incremental(resources)
        check_options(validate_only, broker)
        call = partial(_change, resources, validate_only)
        self._ottla_run("incremental_alter_configs", future, request_timeout, call)


def _native(resource: Any) -> ottla.ConfigResource:
    kind, _ = _TYPES.get(resource.restype_int, (resource.restype.name, -1))
    return ottla.ConfigResource(kind, resource.name)


def _known(resources: list[Any]) -> tuple[dict[ottla.ConfigResource, Any], dict[Any, KafkaError]]:
    """The resources by ottla's, and an error for each whose type has no configuration."""
    known = {_native(each): each for each in resources if each.restype_int in _TYPES}
    invalid = KafkaError(KafkaError.INVALID_REQUEST, "a resource of this type has no configuration")  # type: ignore[attr-defined]
    return known, {each: invalid for each in resources if each.restype_int not in _TYPES}


def _result(resource: Any, configs: Mapping[str, Any] | None, error: KafkaError | None) -> Any:
    kind = results.kinds().ConfigResource
    return kind(resource.restype, resource.name, described_configs=configs or {}, error=error)


def _describe(resources: list[Any], admin: ottla.Admin, seconds: float) -> dict[Any, Any]:
    known, invalid = _known(resources)
    found, failed = _described(list(known), admin, seconds)
    made: dict[Any, Any] = {}
    for resource in resources:
        native = _native(resource)
        error = invalid.get(resource) or failed.get(native)
        configs = {} if error else {entry.name: _entry(entry) for entry in found[native]}
        made[_result(resource, configs, error)] = configs
    return made


def _described(
    wanted: list[ottla.ConfigResource], admin: ottla.Admin, seconds: float
) -> tuple[Mapping[Any, Any], dict[Any, KafkaError]]:
    """Describe resources: what was found, and the errors of the others."""
    if not wanted:
        return {}, {}
    return results.partly(wanted, lambda: admin.describe_configs(wanted, include_synonyms=True, timeout=seconds))


def _entry(found: ottla.ConfigEntry) -> Any:
    kind = results.kinds().ConfigEntry
    synonyms = {
        each.name: kind(
            each.name,
            each.value,
            source=_SOURCES.get(each.source, constants.CONFIG_SOURCE_UNKNOWN_CONFIG),
            is_synonym=True,
        )
        for each in found.synonyms
    }
    return kind(
        found.name,
        found.value,
        source=_SOURCES.get(found.source, constants.CONFIG_SOURCE_UNKNOWN_CONFIG),
        is_read_only=found.is_read_only,
        is_default=found.source == "DEFAULT_CONFIG",
        is_sensitive=found.is_sensitive,
        synonyms=synonyms,
    )


def _change(resources: list[Any], validate_only: bool, admin: ottla.Admin, seconds: float) -> dict[Any, None]:
    known, failed = _known(resources)
    changes = {
        native: [
            ottla.AlterConfigOp(
                entry.name,
                None if entry.incremental_operation.name == "DELETE" else str(entry.value),
                entry.incremental_operation.name,
            )
            for entry in resource.incremental_configs
        ]
        for native, resource in known.items()
    }
    if changes:
        _, refused = results.partly(
            list(changes),
            lambda: admin.incremental_alter_configs(changes, validate_only=bool(validate_only), timeout=seconds),
        )
        failed.update({known[native]: error for native, error in refused.items()})
    return {_result(resource, None, failed.get(resource)): None for resource in resources}


def _replace(resources: list[Any], validate_only: bool, admin: ottla.Admin, seconds: float) -> dict[Any, None]:
    """Send AlterConfigs, as librdkafka does: a broker's own configuration to that broker, the others to any."""
    known, failed = _known(resources)
    by_broker: dict[int | None, list[ottla.ConfigResource]] = {}
    for native in known:
        by_broker.setdefault(_broker(native), []).append(native)
    deadline = time.monotonic() + seconds
    for broker, wanted in by_broker.items():
        message = {
            "resources": [_row(native, known[native]) for native in wanted],
            "validateOnly": bool(validate_only),
        }
        refused = _altered(admin, message, wanted, broker, max(deadline - time.monotonic(), 0))
        failed.update({known[native]: error for native, error in refused.items()})
    return {_result(resource, None, failed.get(resource)): None for resource in resources}


def _broker(native: ottla.ConfigResource) -> int | None:
    """The broker that has this configuration; None for any."""
    if native.type != "BROKER" or not native.name:
        return None
    if not native.name.isdecimal():
        raise failure("_INVALID_ARG", f"alter_configs: a BROKER has an integer as name, not {native.name!r}")
    return int(native.name)


def _row(native: ottla.ConfigResource, resource: Any) -> dict[str, Any]:
    _, number = _TYPES[resource.restype_int]
    configs = [{"name": name, "value": str(value)} for name, value in resource.set_config_dict.items()]
    return {"resourceType": number, "resourceName": native.name, "configs": configs}


def _altered(
    admin: ottla.Admin,
    message: dict[str, Any],
    wanted: list[ottla.ConfigResource],
    broker: int | None,
    seconds: float,
) -> dict[ottla.ConfigResource, KafkaError]:
    """Send a request: the errors of the resources that were not altered."""
    try:
        response = admin.request("AlterConfigs", message, broker=broker, timeout=seconds)
    except errors.KafkaError as error:
        return dict.fromkeys(wanted, to_kafka_error(error, at_deadline="_TIMED_OUT"))
    rows = {(row["resourceType"], row["resourceName"]): row for row in response["responses"]}
    found: dict[ottla.ConfigResource, KafkaError] = {}
    for native, sent in zip(wanted, message["resources"], strict=True):
        row = rows.get((sent["resourceType"], sent["resourceName"]))
        refusal = (
            KafkaError(KafkaError._BAD_MSG, "the response lacks this resource")  # type: ignore[attr-defined]
            if row is None
            else results.code_error(row["errorCode"], row["errorMessage"])
        )
        if refusal is not None:
            found[native] = refusal
    return found
