#!/bin/sh
# Formats, lints, types and dependency rules. Every check runs; the status says whether all passed.
status=0
bin=.venv/bin

check() {
    printf '\n-- %s\n' "$*"
    "$@" || status=1
}

check cargo fmt --all --check
check cargo clippy --workspace --all-targets --locked -- -D warnings
check $bin/ruff format --check .
check $bin/ruff check .
check $bin/mypy
check $bin/python -m pytest -q tests/architecture
exit $status
