"""Which properties hold what nobody may see."""

from __future__ import annotations

import re

from ottla._ottla import secret_words


def secret_names() -> str:
    """A regular expression, for Java too, that finds the names of such properties: passwords, tokens, keys."""
    return f"(?i:{'|'.join(map(re.escape, secret_words()))})"
