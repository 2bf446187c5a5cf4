#!/bin/sh
# The lanes of `make test`, pytest last so that its closing line is the closing line. Every lane runs; the status says
# whether all passed. Arguments go to pytest.
status=0
summary=

lane() {
    name=$1
    shift
    printf '\n==== %s\n' "$name"
    begin=$(date +%s)
    if "$@"; then result=passed; else result=FAILED status=1; fi
    summary="$summary$(printf '%-12s %s in %d s' "$name" "$result" $(($(date +%s) - begin)))
"
}

# The extension module links against the interpreter that loads it; pytest is its test.
lane lint scripts/lint.sh
lane rust cargo test --workspace --exclude ottla-python --exclude ottla-sim --locked --quiet
# Optimised: it runs clients and brokers for many simulated hours.
lane simulation cargo test --release --locked -p ottla-sim --quiet
# As it ships: every line of Kafka's classes, with the table of what was counted.
lane corpus cargo test --release --locked -p ottla-protocol --test messages --test refusals -- --nocapture

# tests/install puts it into an empty environment.
lane wheel scripts/wheel.sh

printf '\n==== lanes before pytest\n%s\n==== python\n' "$summary"
# Most of these tests wait for brokers, so two run at a time; a file's tests share brokers and stay together.
.venv/bin/python -m pytest --numprocesses 2 --dist loadfile "$@" || status=1
exit $status
