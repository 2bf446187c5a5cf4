"""Starts Ray on a machine that others use, too."""

import os
import time

# Without a token, which Ray would store in the home folder. A raylet ends if its agents do not start in time, 30 s by default.
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_agent_register_timeout_ms": "150000",
}

import ray
from ray._private import services

# Seconds for the start of Ray's processes.
START = 150


def start(**options):
    """Start Ray on the loopback address.

    Ray ends its own start after 30 s, a number in its code: the look-up that it repeats until then waits longer here.

    Args:
        **options: Those of `ray.init`.
    """
    look_up = services.get_node

    def get_node(*arguments, **named):
        deadline = time.monotonic() + START
        while True:
            try:
                return look_up(*arguments, **named)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    services.get_node = get_node
    try:
        return ray.init(_node_ip_address="127.0.0.1", include_dashboard=False, log_to_driver=False, **options)
    finally:
        services.get_node = look_up
