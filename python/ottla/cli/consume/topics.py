"""The topics that `consume` reads."""

from __future__ import annotations

import ottla
from ottla.cli.consume.plan import Plan
from ottla.cli.parser import near
from ottla.cli.patterns import matching
from ottla.errors import NotFoundError


def chosen(plan: Plan) -> list[str]:
    """The topics that a plan names, or that its patterns match.

    Raises:
        NotFoundError: No topic matches a pattern.
    """
    if not plan.regex:
        return plan.topics
    with ottla.Admin(plan.bootstrap, config=plan.admin_config) as admin:
        return matching(plan.topics, admin.list_topics())


def check(plan: Plan, topics: list[str]) -> None:
    """Raise if a topic does not exist.

    Raises:
        NotFoundError: It does not. Describe calls return at once, and create nothing.
    """
    with ottla.Admin(plan.bootstrap, config=plan.admin_config) as admin:
        try:
            admin.describe_topics(topics)
        except NotFoundError as error:
            raise missing(plan, error) from error


def missing(plan: Plan, error: NotFoundError) -> NotFoundError:
    """The same error, with the name of the topic that was probably meant."""
    if error.topic is None:
        return error
    with ottla.Admin(plan.bootstrap, config=plan.admin_config) as admin:
        hint = near(error.topic, admin.list_topics()) or "; `ottla topics` lists those that exist"
    return NotFoundError(f"topic {error.topic} does not exist{hint}")
