"""How all commands print bytes in JSON."""

from __future__ import annotations

import base64


def readable(data: bytes | None) -> str | dict[str, str] | None:
    """Text where the bytes are text, else their base64 in an object."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
