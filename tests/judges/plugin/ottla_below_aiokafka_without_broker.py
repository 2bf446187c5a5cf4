"""A plugin of pytest: aiokafka runs on ottla, for tests that need no broker."""

import os

from outcomes import *  # noqa: F403 the hooks

# For comparisons: the suite on aiokafka itself.
if os.environ.get("OTTLA_JUDGE_SIDE") != "theirs":
    from ottla.compat.aiokafka import install

    install()
