"""`ConfigResource` and `ConfigResourceType`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

__all__ = ["ConfigResource", "ConfigResourceType"]


class ConfigResourceType(IntEnum):
    """What has a configuration."""

    BROKER = 4
    TOPIC = 2


class ConfigResource:
    """A topic's or a broker's configuration.

    Args:
        resource_type: What it belongs to, or the name of that.
        name: The topic's name, or the broker's id.
        configs: The properties to describe, or to set.
    """

    def __init__(
        self,
        resource_type: ConfigResourceType | str,
        name: str | int,
        configs: Mapping[str, str] | Sequence[str] | None = None,
    ) -> None:
        if not isinstance(resource_type, ConfigResourceType):
            resource_type = ConfigResourceType[resource_type.upper()]
        self.resource_type = resource_type
        self.name = name
        self.configs = configs
