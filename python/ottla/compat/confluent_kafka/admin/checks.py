"""What admin calls check before they send a request, as the native module does."""

from __future__ import annotations

import importlib
from typing import Any

from ottla.compat.confluent_kafka.errors import failure


def check_resources(resources: Any) -> None:
    """Check an argument that has to be a list of ConfigResource."""
    kind = importlib.import_module("confluent_kafka.admin").ConfigResource
    check_list(resources, kind, "ConfigResource", error=ValueError)


def check_filter(given: Any) -> None:
    """Check an argument that has to be an AclBindingFilter."""
    kinds = importlib.import_module("confluent_kafka.admin")
    if type(given) is not kinds.AclBindingFilter:
        raise TypeError(f"expected AclBindingFilter, not {type(given).__name__}")


def check_assignment(assignment: Any, least: int, most: int, size: str) -> None:
    """Check the brokers of each partition's replicas."""
    is_valid = isinstance(assignment, list) and least <= len(assignment) <= most
    if not is_valid or not all(_is_brokers(each) for each in assignment):
        raise ValueError(f"replica_assignment must be a list of int lists with an outer size of {size}")


def _is_brokers(replicas: Any) -> bool:
    return isinstance(replicas, list) and bool(replicas) and all(isinstance(each, int) for each in replicas)


def check_incremental(resources: Any) -> None:
    """Check the changes of configurations."""
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


def check_list(values: Any, kind: type, shown: str, *, error: type[Exception] = TypeError) -> None:
    """Check an argument that has to be a list of objects of a class."""
    if not isinstance(values, list) or not values or not all(isinstance(value, kind) for value in values):
        raise error(f"Expected non-empty list of {shown} objects")


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
