"""A function that a trigger imports by its path."""

import json


def third(name, message):
    """The third order, as the payload of the event."""
    order = json.loads(message.value()) if message.key() != b"k" else {}
    return order if order.get(name) == 3 else None
