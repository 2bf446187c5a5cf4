"""The pages of docs/ run as they stand."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PRINTED = {
    "testing.md": (
        "0\n",
        "ca.pem client-1.pem client-1.key\n",
        "SASL_SSL ['PLAIN', 'SCRAM-SHA-512']\n",
        "MUTUAL []\n",
        "'ssl.ca.location'",
        "b'3'\n",
    ),
    "migrating.md": ("[3, 3]\n",),
}


@pytest.mark.parametrize("name", PRINTED)
def test_page(capsys, name):
    page = DOCS / name
    text = page.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    scope = {"__name__": "page"}
    for block in blocks:
        line = text[: text.index(block)].count("\n")
        exec(compile("\n" * line + block, str(page), "exec"), scope)
    printed = capsys.readouterr().out
    missing = [expected for expected in PRINTED[name] if expected not in printed]
    assert not missing, printed
