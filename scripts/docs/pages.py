"""Put the pages of the site together: docs/, pages of the repository, and pages that are written from the source."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FORGE = "https://github.com/ottla/ottla"

# Pages that stand elsewhere in the repository.
ELSEWHERE = {
    "changes.md": "CHANGELOG.md",
    "develop/contributing.md": "CONTRIBUTING.md",
    "develop/map.md": "crates/README.md",
    "develop/releasing.md": "RELEASING.md",
}
# Below docs/, and not pages.
_NO_PAGES = {"overrides"}


def assemble(target: Path) -> list[Path]:
    """Write all pages into a folder, and return them.

    Args:
        target: The folder, which is emptied.
    """
    from scripts.docs import api, tables

    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target, ignore=lambda folder, _: _NO_PAGES if folder == str(DOCS) else set())
    written = {
        "reference/properties.md": tables.properties(),
        "reference/error-codes.md": tables.error_codes(),
        "reference/protocol.md": tables.protocol(),
        **{f"reference/api/{name}": text for name, text in api.pages(ROOT / "python").items()},
    }
    for name, text in written.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text)
    for name, source in ELSEWHERE.items():
        (target / name).write_text(_moved((ROOT / source).read_text(), ROOT / source))
    pages = sorted(target.rglob("*.md"))
    for page in pages:
        page.write_text(_filled(page.read_text(), page, target))
    return pages


def _filled(text: str, page: Path, target: Path) -> str:
    """A page with its tables, without comments for tests, and with links that leave docs/ made absolute."""
    from scripts.docs import tables

    text = re.sub(r"<!-- table: ([\w-]+) -->", lambda match: tables.TABLES[match[1]](), text)
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    # Python-Markdown shows the backslash of `a \| b` in a cell; GitHub needs it.
    text = _ROW.sub(lambda row: _SPAN.sub(lambda span: span[0].replace("\\|", "|"), row[0]), text)
    home = DOCS / page.relative_to(target)
    return _outside_code(text, lambda part: _LINK.sub(lambda match: _absolute(match, home), part))


_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#|<)([^)\s#]+)(#[^)\s]*)?(?=\))")
_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
_SPAN = re.compile(r"`[^`\n]+`")
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def _outside_code(text: str, change) -> str:  # noqa: ANN001 a function over text
    parts = []
    last = 0
    for block in _CODE.finditer(text):
        parts += [change(text[last : block.start()]), block[0]]
        last = block.end()
    return "".join([*parts, change(text[last:])])


def _absolute(match: re.Match[str], home: Path) -> str:
    """The link itself if it stays in docs/, otherwise that of the forge."""
    path = (home.parent / match[1]).resolve()
    if path.is_relative_to(DOCS):
        return match[0]
    for name, source in ELSEWHERE.items():
        if path == ROOT / source:
            up = "../" * (len(home.relative_to(DOCS).parts) - 1)
            return f"{up}{name}{match[2] or ''}"
    if not path.exists():
        return match[0]
    kind = "tree" if path.is_dir() else "blob"
    return f"{FORGE}/{kind}/main/{path.relative_to(ROOT)}{match[2] or ''}"


def _moved(text: str, source: Path) -> str:
    """A page of the repository, whose links are written from another folder."""

    def from_root(match: re.Match[str]) -> str:
        path = (source.parent / match[1]).resolve()
        anchor = match[2] or ""
        if path.is_relative_to(DOCS):
            up = "" if source.name == "CHANGELOG.md" else "../"
            return f"{up}{path.relative_to(DOCS)}{anchor}"
        for name, other in ELSEWHERE.items():
            if path == ROOT / other:
                up = "" if source.name == "CHANGELOG.md" else "../"
                return f"{up}{name}{anchor}"
        kind = "tree" if path.is_dir() else "blob"
        return f"{FORGE}/{kind}/main/{path.relative_to(ROOT)}{anchor}"

    return _outside_code(text, lambda part: _LINK.sub(from_root, part))


def slug(heading: str) -> str:
    """The anchor of a heading, as the site and the forge write it."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain))


def anchors(text: str) -> set[str]:
    """Every anchor of a page."""
    text = _CODE.sub("", text)
    found: set[str] = set(re.findall(r'id="([^"]+)"', text))
    for heading in re.findall(r"^#{1,6} (.*)$", text, re.MULTILINE):
        name = slug(heading)
        number = 0
        while (name if not number else f"{name}_{number}") in found:
            number += 1
        found.add(name if not number else f"{name}_{number}")
    return found


def broken_links(folder: Path) -> list[str]:
    """Links of the pages in a folder that lead to no page, or to no heading of it."""
    problems = []
    texts = {page.resolve(): page.read_text() for page in folder.rglob("*.md")}
    headings = {page: anchors(text) for page, text in texts.items()}
    link = re.compile(r"\]\((?!https?:|mailto:|<)([^)\s#]*)(#[^)\s]*)?\)")
    for page, text in texts.items():
        for match in link.finditer(re.sub(r"`[^`\n]*`", "", _CODE.sub("", text))):
            path = (page.parent / match[1]).resolve() if match[1] else page
            anchor = (match[2] or "#")[1:]
            missing = not path.is_file() or (anchor and path in headings and anchor not in headings[path])
            if missing:
                problems.append(f"{page.relative_to(folder.resolve())}: {match[1]}{match[2] or ''}")
    return sorted(problems)
