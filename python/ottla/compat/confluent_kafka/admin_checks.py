"""What admin calls check before they send a request, as the native module does."""

from __future__ import annotations

import importlib
from typing import Any

from ottla.compat.confluent_kafka.admin_types import NewPartitions
from ottla.compat.confluent_kafka.errors import failure


def check_arguments(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """What the native module checks before it sends a request."""
    first = args[0]
    if name == "create_partitions":
        check_list(first, NewPartitions, "NewPartitions")
    elif isinstance(first, list | tuple) and not first and name != "list_offsets":
        raise ValueError(f"{name}: expected a list that is not empty")
    if name.endswith("configs") and (not isinstance(first, list) or None in first):
        raise ValueError(f"{name}: expected a list of ConfigResource")
    if name == "describe_acls":
        kinds = importlib.import_module("confluent_kafka.admin")
        if type(first) is not kinds.AclBindingFilter:
            raise TypeError(f"expected AclBindingFilter, not {type(first).__name__}")
    if name == "incremental_alter_configs":
        _check_incremental(first)
    if name == "list_offsets" and any(not at.topic or at.partition < 0 for at in first):
        raise ValueError("list_offsets: expected a topic's name and a partition that is not negative")
    check_options(options.get("validate_only", False), options.get("operation_timeout"))


def _check_incremental(resources: Any) -> None:
    operations = importlib.import_module("confluent_kafka.admin").AlterConfigOpType
    for resource in resources:
        entries = resource.incremental_configs
        if not entries:
            raise ValueError(f"incremental_alter_configs: {resource} has no incremental_configs")
        for entry in entries:
            if not isinstance(getattr(entry, "name", None), str) or not isinstance(
                entry.incremental_operation, operations
            ):
                raise TypeError("expected a str as name and an AlterConfigOpType as incremental_operation")
        names = [entry.name for entry in entries]
        if len(set(names)) < len(names):
            raise failure("_INVALID_ARG", f"incremental_alter_configs: {resource} names a property twice")


def check_list(values: Any, kind: type, shown: str) -> None:
    """Check an argument that has to be a list of objects of a class."""
    if not isinstance(values, list) or not values or not all(isinstance(value, kind) for value in values):
        raise TypeError(f"Expected non-empty list of {shown} objects")


def check_options(flag: Any, timeout: Any) -> None:
    """Check a flag and a time."""
    if not isinstance(flag, bool | int):
        raise TypeError(f"expected a bool, not {type(flag).__name__}")
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"expected seconds, not {type(timeout).__name__}")
    if timeout < 0:
        raise ValueError(f"a timeout must not be negative: {timeout}")
