"""What makes a run of a judge red."""

from tests.judges import side_by_side, suite
from tests.judges.examples import EXAMPLES, NOT_RUN, Example
from tests.judges.side_by_side import printed
from tests.judges.suite import HERE, SUITES, Suite, allowlist, problems, run


def test_a_failure_that_is_not_listed_is_red_and_so_is_a_listed_test_that_passes():
    allowed = allowlist("# a comment\na::one  # why\na::two  # why\na::gone  # why\n")
    outcomes = {"a::one": "failed", "a::two": "passed", "a::three": "failed", "a::four": "skipped", "a::five": "passed"}
    assert problems(outcomes, allowed) == [
        "failed: a::three",
        "passes, take it off the list: a::two",
        "does not exist, take it off the list: a::gone",
    ]


def test_every_suite_has_a_list_with_reasons():
    for name in SUITES:
        assert all(reason for reason in allowlist((HERE / f"{name}.txt").read_text()).values())


def test_a_run_that_did_not_reach_all_tests_is_red(tmp_path, monkeypatch, capsys):
    (tmp_path / "test_one.py").touch()
    name = "opentelemetry-confluent"
    monkeypatch.setitem(SUITES, name, Suite("pytest", ("test_*.py",), "outcomes"))
    monkeypatch.setattr(suite, "outcomes_of", lambda *_: (0, {"test_one.py::test": "passed"}))
    assert run(name, tmp_path) == 0
    monkeypatch.setattr(suite, "outcomes_of", lambda *_: (2, {"test_one.py::test": "passed"}))
    assert run(name, tmp_path) == 1
    assert "pytest ended with status 2: some tests did not run" in capsys.readouterr().out


def test_examples_have_ids_of_their_own_and_differences_have_reasons():
    assert len({example.id for example in EXAMPLES}) == len(EXAMPLES)
    assert not {example.name for example in EXAMPLES} & NOT_RUN.keys()
    assert allowlist((HERE / f"{side_by_side.NAME}.txt").read_text()).keys() <= {example.id for example in EXAMPLES}


def test_an_example_gets_what_it_asks_for_and_then_ctrl_c(tmp_path):
    text = (
        "import sys\n"
        "print('at', sys.argv[1])\n"
        "try:\n    while True: print('hello', input('name: '))\n"
        "except KeyboardInterrupt: print('interrupted')\n"
        "print('to log', file=sys.stderr)\n"
    )
    (tmp_path / "asks.py").write_text(text)
    example = Example("asks", "{broker}", ("Ann", "Bob"), ("name: ", 3))
    found = printed(example, "theirs", tmp_path, {"broker": "127.0.0.1:40123"})
    expected = ["at ADDRESS", "name: hello Ann", "name: hello Bob", "name: interrupted", "to log", "status 0, in time"]
    assert found == expected
    kept = Example("asks", "{broker}", ("Ann",), kept="^name: hello")
    assert printed(kept, "theirs", tmp_path, {"broker": "x"}) == ["name: hello Ann", "status 1, in time"]
