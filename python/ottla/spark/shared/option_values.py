"""Options as Spark hands them over: names in any letter case, values as texts.

Each function that gives a value raises ValueError for a bad one; the message names the option and what it takes.
"""

import difflib
import logging
import re
from collections.abc import Iterable, Mapping

from ottla.spark.shared import redaction, tokens

LOG = logging.getLogger("ottla.spark")

PREFIX = "kafka."
BOOTSTRAP = "bootstrap.servers"

# Settings of the JVM in queries with Spark's own source, which ottla does not need: reporters of
# metrics, security providers of Java, and the classes that sign for MSK (AWS_MSK_IAM) or call a
# token endpoint (OAUTHBEARER), in any vendor's package.
OF_JAVA = frozenset({"metric.reporters", "security.providers"})
HANDLERS = frozenset({"sasl.client.callback.handler.class", "sasl.login.callback.handler.class"})
PLAYED = frozenset({"IAMClientCallbackHandler", "OAuthBearerLoginCallbackHandler"})

# Seconds of the units of Spark configuration.
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def lowered(
    options: Mapping[str, str], known: Iterable[str], what: str = "property of a consumer", prefix: str = PREFIX
) -> dict[str, str]:
    """The options with their names in lower case, bare.

    One that is not known and has not this prefix is refused.

    Args:
        options: As Spark hands them over.
        known: Names in their canonical form.
        what: What stands behind the prefix.
        prefix: What further options begin with.
    """
    canonical = {name.lower(): name for name in known}
    given: dict[str, str] = {}
    for hidden, value in options.items():
        name = redaction.bare(hidden)
        small = name.lower()
        if small not in canonical and not small.startswith(prefix):
            near = difflib.get_close_matches(small, canonical, n=1)
            hint = f"did you mean {canonical[near[0]]}? Known" if near else "known"
            listed = ", ".join(canonical.values())
            raise ValueError(f"option {name} is not known to ottla; {hint} are {listed} and {prefix}<{what}>")
        if small in given:
            raise ValueError(f"option {name} is given twice, hidden as {redaction.HIDING}{name} too: leave one of them")
        given[small] = value
    return given


def kafka_properties(given: Mapping[str, str], refused: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The bootstrap servers, and the other Kafka properties without the prefix; `refused`: why one cannot be set."""
    start = len(PREFIX)
    properties = {name[start:]: value for name, value in given.items() if name.startswith(PREFIX)}
    for name, why in refused.items():
        if name in properties:
            raise ValueError(f"option {PREFIX}{name} cannot be set: {why}")
    properties = _without_java(properties)
    tokens.check(properties)
    bootstrap = properties.pop(BOOTSTRAP, "").strip()
    if not bootstrap:
        raise ValueError(
            f'option {PREFIX}{BOOTSTRAP} is missing: set it to one or more brokers, such as "host1:9092,host2:9092"'
        )
    return bootstrap, properties


def _without_java(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties without those that only a JVM has a use for, or that name a class whose part ottla plays by itself."""
    unused = [
        name
        for name, value in sorted(properties.items())
        if name in OF_JAVA or (name in HANDLERS and value.strip().rpartition(".")[2] in PLAYED)
    ]
    if unused:
        listed = ", ".join(f"{PREFIX}{name}" for name in unused)
        LOG.warning("ottla loads no Java classes and ignores %s", listed)
    return {name: value for name, value in properties.items() if name not in unused}


def whole(option: str, given: Mapping[str, str], default: float) -> float:
    """A whole number, 0 or above."""
    text = given.get(option.lower())
    if text is None:
        return default
    if not (text.strip().isascii() and text.strip().isdigit()):
        raise ValueError(f"option {option} must be a whole number, 0 or above, not {text!r}")
    return int(text)


def positive(option: str, given: Mapping[str, str]) -> int | None:
    """A whole number above 0; None if it is not given."""
    text = given.get(option.lower())
    if text is None:
        return None
    if not (text.strip().isascii() and text.strip().isdigit()) or int(text) == 0:
        raise ValueError(f"option {option} must be a whole number above 0, not {text!r}")
    return int(text)


def seconds(option: str, given: Mapping[str, str], default: float) -> float:
    """Seconds, of a time with a Spark unit; milliseconds without one."""
    text = given.get(option.lower())
    if text is None:
        return default
    match = re.fullmatch(r"([0-9]+)([a-z]*)", text.strip().lower(), re.ASCII)
    unit = UNITS.get((match[2] if match else "?") or "ms")
    if match is None or unit is None:
        raise ValueError(f"option {option} must be a time with a Spark unit, such as 90s, 15m or 1h, not {text!r}")
    return int(match[1]) * unit


def choice(option: str, given: Mapping[str, str], choices: tuple[str, ...]) -> str | None:
    """One of these words; None if it is not given."""
    text = given.get(option.lower())
    if text is None:
        return None
    word = text.strip().lower()
    if word not in choices:
        raise ValueError(f"option {option} must be {' or '.join(choices)}, not {text!r}")
    return word


def boolean(option: str, given: Mapping[str, str], *, default: bool) -> bool:
    """True or false."""
    word = choice(option, given, ("true", "false"))
    return default if word is None else word == "true"
