"""Starts Ray on a machine that others use, too."""

import os

# Without a token, which Ray would store in the home folder.
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}

import ray


def start(attempts=4, **options):
    """Start Ray on the loopback address.

    Ray ends its own start if its agents take longer than 30 s to import their modules, which no setting changes. So
    it is started again.

    Args:
        attempts: How often.
        **options: Those of `ray.init`.
    """
    for _ in range(attempts - 1):
        try:
            return ray.init(_node_ip_address="127.0.0.1", include_dashboard=False, log_to_driver=False, **options)
        except Exception:  # Ray has no class of its own for this
            ray.shutdown()
    return ray.init(_node_ip_address="127.0.0.1", include_dashboard=False, log_to_driver=False, **options)
