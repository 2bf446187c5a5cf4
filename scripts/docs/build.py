"""Build the site into target/site, one folder for each version, and the files next to them.

Usage: python -m scripts.docs.build [--serve]
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from scripts.docs import pages

ROOT = pages.ROOT
PAGES = ROOT / "target" / "docs" / "pages"
BUILT = ROOT / "target" / "docs" / "site"
SITE = ROOT / "target" / "site"
REDIRECT = """<!doctype html>
<meta charset="utf-8">
<title>ottla</title>
<meta http-equiv="refresh" content="0; url={to}">
<a href="{to}">The documentation of ottla</a>
"""


def main() -> None:
    """Write the pages, check their links, and build the site, or serve it."""
    written = pages.assemble(PAGES)
    broken = pages.broken_links(PAGES)
    if broken:
        sys.exit("links that lead nowhere:\n" + "\n".join(broken))
    _for_models(written)
    zensical = str(Path(sys.executable).parent / "zensical")
    if "--serve" in sys.argv:
        sys.exit(subprocess.call([zensical, "serve"], cwd=ROOT))
    shutil.rmtree(BUILT, ignore_errors=True)
    done = subprocess.run(
        [zensical, "build", "--clean", "--strict"], cwd=ROOT, check=False, text=True, capture_output=True
    )
    print(done.stdout + done.stderr, end="")
    if done.returncode or re.search(r"\bwarning\b", done.stdout + done.stderr, re.IGNORECASE):
        sys.exit("the site has warnings, or was not built")
    _publish()


def _for_models(written: list[Path]) -> None:
    """Write llms.txt, the list of pages, and llms-full.txt, their text, as llmstxt.org describes them."""
    base = "https://ottla.github.io/ottla/latest/"
    listed = [
        "# ottla",
        "",
        "> A Kafka client for Python with a Rust core: blocking and asyncio APIs, Arrow columns, Spark without a jar.",
        "",
    ]
    whole = []
    section = None
    for page in written:
        name = page.relative_to(PAGES)
        folder = name.parts[0] if len(name.parts) > 1 else "Overview"
        if folder != section:
            listed += ["", f"## {folder.title()}", ""]
            section = folder
        text = page.read_text()
        title = re.search(r"^# (.*)$", text, re.MULTILINE)
        url = str(name.with_suffix("")).removesuffix("index").removesuffix("README")
        listed.append(f"- [{title[1] if title else name}]({base}{url.rstrip('/')}/)")
        if name.parts[0] != "results":
            whole.append(text)
    (PAGES / "llms.txt").write_text(re.sub(r"\n{3,}", "\n\n", "\n".join(listed)) + "\n")
    (PAGES / "llms-full.txt").write_text("\n\n".join(whole))


def _publish() -> None:
    """Put the built site into the folder of its version."""
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    folder = SITE / version
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(BUILT, folder)
    versions = sorted(
        (path.name for path in SITE.iterdir() if re.fullmatch(r"\d+\.\d+\.\d+.*", path.name)),
        key=lambda name: [int(part) for part in re.findall(r"\d+", name)],
        reverse=True,
    )
    newest = versions[0]
    shutil.rmtree(SITE / "latest", ignore_errors=True)
    shutil.copytree(SITE / newest, SITE / "latest")
    listed = [{"version": name, "title": name, "aliases": ["latest"] if name == newest else []} for name in versions]
    (SITE / "versions.json").write_text(json.dumps(listed, indent=1) + "\n")
    (SITE / "index.html").write_text(REDIRECT.format(to="latest/"))
    shutil.copy(SITE / newest / "404.html", SITE / "404.html")
    for name in ("llms.txt", "llms-full.txt"):
        shutil.copy(SITE / newest / name, SITE / name)
    print(f"the site is in {SITE.relative_to(ROOT)}: {', '.join(versions)}")


if __name__ == "__main__":
    main()
