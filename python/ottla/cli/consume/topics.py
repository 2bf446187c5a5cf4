"""The topics that `consume` reads."""

from __future__ import annotations

import difflib
import re

import ottla
from ottla.cli.consume.plan import Plan
from ottla.errors import ArgumentError, NotFoundError


def existing(plan: Plan) -> list[str]:
    """The topics of a plan.

    Raises:
        NotFoundError: A topic does not exist, or no topic matches a pattern. Describe calls return at once, and create
            nothing.
    """
    with ottla.Admin(plan.bootstrap, config=plan.admin_config) as admin:
        if plan.regex:
            return matching(plan.topics, admin.list_topics())
        try:
            admin.describe_topics(plan.topics)
        except NotFoundError as error:
            if error.topic is None:
                raise
            near = difflib.get_close_matches(error.topic, admin.list_topics(), n=1)
            hint = f"; did you mean {near[0]}?" if near else "; `ottla topics` lists those that exist"
            raise NotFoundError(f"topic {error.topic} does not exist{hint}") from error
    return plan.topics


def matching(patterns: list[str], names: list[str]) -> list[str]:
    """The names that a pattern matches as a whole.

    Raises:
        NotFoundError: There are none.
    """
    compiled = pattern(patterns)
    found = sorted(name for name in names if compiled.fullmatch(name))
    if not found:
        raise NotFoundError(
            f"no topic matches {' or '.join(patterns)} as a whole; `ottla topics` lists those that exist"
        )
    return found


def pattern(patterns: list[str]) -> re.Pattern[str]:
    """One pattern for all of them."""
    try:
        return re.compile("|".join(f"(?:{each})" for each in patterns))
    except re.error as error:
        raise ArgumentError(f"{' or '.join(patterns)} is not a regular expression: {error}") from None
