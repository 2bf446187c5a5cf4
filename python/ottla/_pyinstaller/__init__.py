"""The folder with ottla's PyInstaller hook. The entry point `pyinstaller40` names it."""

from __future__ import annotations

from pathlib import Path


def get_hook_dirs() -> list[str]:
    """List the folders of hooks."""
    return [str(Path(__file__).parent)]
