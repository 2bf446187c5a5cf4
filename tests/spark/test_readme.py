"""The README's tour runs as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::ResourceWarning:pyspark.*")
def test_tour(spark, capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 8
    # Python blocks share one namespace, as for a reader who types them in. The session is the one that runs already,
    # and it stays for the other tests.
    scope = {"__name__": "tour"}
    for block in blocks:
        code = block.replace("spark.stop()\n", "")
        line = README.read_text()[: README.read_text().index(block)].count("\n")
        exec(compile("\n" * line + code, str(README), "exec"), scope)
    printed = capsys.readouterr().out
    for expected in (
        "1000\n",
        "1001\n",
        "orders\n",
        "['orders', 'orders-priced', 'payments']",
        "Metadata 12 orders\n",
        "0 none [b'in']\n",
        "payments: 1006 of 1006\n",
    ):
        assert expected in printed
