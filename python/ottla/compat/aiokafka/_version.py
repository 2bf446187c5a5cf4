"""The release of aiokafka whose behaviour the modules follow."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.14.0"
CLIENT_ID: Final = f"aiokafka-{VERSION}"
