"""From ottla's results and errors to confluent-kafka's, for calls about several things."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ottla
from ottla import errors
from ottla.compat.confluent_kafka.errors import KafkaError, code, to_kafka_error


def package() -> Any:
    """The package confluent_kafka, which imports the module that this one is part of."""
    return importlib.import_module("confluent_kafka")


def kinds() -> Any:
    """The classes of confluent_kafka.admin."""
    return importlib.import_module("confluent_kafka.admin")


def partly(
    things: Sequence[Any], call: Callable[[], Any], *, absent: str | None = None
) -> tuple[Mapping[Any, Any], dict[Any, KafkaError]]:
    """Make a call about several things.

    Args:
        things: What the call is about.
        call: The call; without a result, every thing has None.
        absent: The name of the code for a thing that the cluster does not have, where it is not that of an argument.

    Returns: The results by thing, and the errors of those that failed.

    Raises:
        KafkaError: The whole call failed.
    """
    try:
        found = call()
    except errors.KafkaError as error:
        failed = dict(error.failures)
        if not failed and error.code and len(things) == 1:
            failed = {things[0]: error}
        if not failed:
            raise
        return error.results, {
            thing: KafkaError(code(absent), str(one))
            if absent and isinstance(one, errors.ArgumentError)
            else to_kafka_error(one, at_deadline="_TIMED_OUT")
            for thing, one in failed.items()
        }
    return dict.fromkeys(things) if found is None else found, {}


def each(things: Sequence[Any], call: Callable[[], object]) -> dict[Any, KafkaError | None]:
    """Make a call without results: None or the error of each thing."""
    _, failed = partly(things, call)
    return {thing: failed.get(thing) for thing in things}


def code_error(number: int, text: str | None) -> KafkaError | None:
    """The error for a code of a response, None for 0."""
    return KafkaError(number, text) if number else None


def node(found: ottla.Node | None) -> Any:
    """A broker as a Node."""
    return None if found is None else package().Node(found.id, found.host, found.port, found.rack)


def nodes(admin: ottla.Admin, seconds: float) -> dict[int, Any]:
    """The brokers by their ids."""
    return {each.id: node(each) for each in admin.describe_cluster(timeout=seconds).nodes}


def controller(admin: ottla.Admin, seconds: float) -> int | None:
    """The broker that takes requests for the controller; None for any."""
    found = admin.describe_cluster(timeout=seconds).controller
    return None if found is None else found.id


def operations(names: Iterable[str] | None) -> Any:
    """Operations as AclOperations by their numbers; None if the call did not request them."""
    kind = kinds().AclOperation
    if names is None:
        return None
    return sorted((kind[name] for name in names if name in kind.__members__), key=lambda one: one.value)


def member(kind: Any, name: str | None) -> Any:
    """The member of an enumeration for a name such as `PreparingRebalance` or `TOPIC`; UNKNOWN if it has none."""
    text = name or "UNKNOWN"
    if not text.isupper():
        text = "".join(f"_{letter}" if letter.isupper() else letter for letter in text).strip("_").upper()
    return kind.__members__.get(text, kind.UNKNOWN)
