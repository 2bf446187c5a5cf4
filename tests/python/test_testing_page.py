"""The page for test authors runs as it stands."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_page(capsys):
    text = PAGE.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 6
    scope = {"__name__": "page"}
    for block in blocks:
        line = text[: text.index(block)].count("\n")
        exec(compile("\n" * line + block, str(PAGE), "exec"), scope)
    printed = capsys.readouterr().out
    for expected in (
        "0\n",
        "ca.pem client-1.pem client-1.key\n",
        "SASL_SSL ['PLAIN', 'SCRAM-SHA-512']\n",
        "MUTUAL []\n",
        "'ssl.ca.location'",
    ):
        assert expected in printed
