#!/bin/sh
# The gate (`make test`): lint, Rust tests, the simulation's first seeds, and every Python test that needs no JVM, Go, cargo or Spark.
# Nothing is retried. Arguments go to the main run of pytest. Logs and results are in target/rings/gate.
set -u
out=target/rings/gate
python=.venv/bin/python
rm -rf $out
mkdir -p $out

# lane NAME COMMAND...: runs a command with its output in a log, and notes whether it passed.
lane() {
    name=$1
    shift
    begin=$(date +%s)
    if "$@" >"$out/$name.log" 2>&1; then result=passed; else result=FAILED; fi
    printf '%-12s %s in %d s\n' "$name" $result $(($(date +%s) - begin)) | tee -a $out/summary
    [ $result = passed ]
}

# Runs a function of cargo.sh after what the tests need.
behind() { nice -n 10 sh -c '. scripts/cargo.sh && "$@"' sh "$@"; }

# shown NAME COMMAND...: a lane whose output is shown while it runs.
shown() {
    name=$1
    tail -n 0 -F "$out/$name.log" 2>/dev/null &
    tail=$!
    lane "$@"
    code=$?
    kill $tail
    return $code
}

failed() { grep -q FAILED $out/summary; }

# What failed comes last, for readers who keep only the last lines.
finish() {
    for name in $(sed -n 's/^\([a-z]*\) *FAILED.*/\1/p' $out/summary); do
        printf '\n==== %s\n' "$name"
        grep -q '^FAILED at ' "$out/$name.log" && grep -A 3 '^FAILED at ' "$out/$name.log" || tail -n 300 "$out/$name.log"
    done
    printf '\n==== lanes\n%s\n\n' "$(cat $out/summary)"
    $python -m tests.rings.closing $out/*.json $out/*.log $out/summary
    ! failed
    exit
}

pytest="$python -m pytest --ring gate"

printf '==== before any build: formats, lints, types, architecture\n'
lane packages make .venv/dev.stamp || finish
lane lint scripts/lint.sh python || finish

printf '\n==== the extension\n'
lane extension make .venv/gate.stamp || finish

# Tests mostly wait; compilers take the time that they leave. cargo builds for one of the three at a time, and runs the others: the
# simulation is first, since it runs longest.
printf '\n==== Python, beside the simulation, the Rust tests and clippy\n'
lane simulation behind simulation --quiet &
simulation=$!
sleep 2
lane rust behind rust_tests --no-fail-fast &
rust=$!
lane clippy behind scripts/lint.sh rust &
clippy=$!
shown python $pytest -m 'not alone' --numprocesses 6 --dist worksteal --results $out/python.json "$@"
wait $simulation $rust $clippy

printf '\n==== alone: processor time, memory\n'
shown alone $pytest -m alone --results $out/alone.json
finish
