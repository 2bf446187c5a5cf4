"""Tests that others wrote for the clients that ottla replaces, run on ottla: `python -m tests.judges NAME --tree FOLDER`.

Nothing of them is here: they lie in a checkout of the project that they belong to. `NAME.txt` lists the tests that may fail, each
with its reason. A listed test that passes is an error, so the list only shrinks.
"""
