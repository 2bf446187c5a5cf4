"""Check docs/results/questions.md against the built site: each page is found by its search term and by its clicks.

Usage: python -m scripts.docs.questions, after `make docs`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from scripts.docs.pages import DOCS, ROOT

INDEX = ROOT / "target" / "site" / "latest" / "search.json"
_ROW = re.compile(r"^\| ([^|]+) \| \[[^\]]*\]\(\.\./([^)#]+)(?:#[^)]*)?\) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def problems(index: Path = INDEX) -> list[str]:
    """What does not lead where the table says."""
    rows = _ROW.findall((DOCS / "results" / "questions.md").read_text())
    items = json.loads(index.read_text())["items"]
    navigation = (ROOT / "mkdocs.yml").read_text()
    home = (DOCS / "index.md").read_text()
    found = [f"{len(rows)} questions, and not twenty"] if len(rows) != 20 else []
    for question, page, clicks, term in rows:
        where = page.removesuffix(".md").removesuffix("index")
        if not any(_shows(item, where, term) for item in items):
            found.append(f"{question} {term!r} does not find {page}")
        linked = page in home if clicks.startswith("Home") else page in navigation
        if not linked or clicks.count("→") > 1:
            found.append(f"{question} {clicks} is not the way to {page}")
    return found


def _shows(item: dict[str, str], where: str, term: str) -> bool:
    text = f"{item['title']} {item['text']}".lower()
    here = item["location"].partition("#")[0].strip("/") == where.strip("/")
    return here and all(word in text for word in term.lower().split())


if __name__ == "__main__":
    wrong = problems()
    sys.exit("\n".join(wrong) or 0)
