"""What makes a run of a judge red."""

from tests.judges import suite
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
