"""The topics that `consume` reads."""

from __future__ import annotations

import difflib

import ottla
from ottla.cli.consume.plan import Plan
from ottla.cli.patterns import matching
from ottla.errors import NotFoundError


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
