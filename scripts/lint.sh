#!/bin/sh
# Formats, lints, types and dependency rules. Every check runs; the status says whether all passed. `lint.sh rust` and
# `lint.sh python` run a half; the first needs no .venv.
status=0
bin=.venv/bin
. scripts/cargo.sh

check() {
    printf '\n-- %s\n' "$*"
    "$@" || status=1
}

rust() {
    check cargo fmt --all --check
    check clippy
}

python() {
    check $bin/ruff format --check .
    check $bin/ruff check .
    check $bin/mypy
    check $bin/codespell README.md CHANGELOG.md CONTRIBUTING.md RELEASING.md SECURITY.md crates/README.md docs
    check $bin/python -m pytest -q tests/architecture
}

[ $# -gt 0 ] || set -- rust python
for half; do $half; done
exit $status
