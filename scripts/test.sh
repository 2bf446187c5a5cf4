#!/bin/sh
# The lanes of `make test`. Every lane runs; the status says whether all passed, and pytest's closing line is the last. Arguments
# go to pytest.
logs=target/lanes
rm -rf $logs
mkdir -p $logs

# Nobody builds a second time what CI builds.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0

lane() {
    name=$1
    shift
    begin=$(date +%s)
    if "$@" >"$logs/$name.log" 2>&1; then result=passed; else result=FAILED; fi
    printf '%-12s %s in %d s\n' "$name" $result $(($(date +%s) - begin)) | tee -a $logs/summary
}

# The extension module links against the interpreter that loads it; pytest is its test.
rust="cargo test --workspace --exclude ottla-python --exclude ottla-sim --locked --no-fail-fast"

# Optimised: it runs clients and brokers for many simulated hours.
simulation="cargo test --release --locked -p ottla-sim --quiet"

# Two rows of lanes at a time, since each waits for its last crate or its slowest test with one core.
printf '==== rust and corpus beside setup and wheel\n'
{
    lane rust $rust --quiet
    # Every line of Kafka's classes once more, with the table of what was counted.
    lane corpus $rust --test messages --test refusals -- --nocapture
} &
{
    lane setup make setup
    # tests/install puts it into an empty environment.
    lane wheel scripts/wheel.sh
} &
wait

# What is left has no clock to fear: it takes the processor time that pytest leaves. Clippy comes late, for tests/conformance
# runs tests of Rust, which wait while it builds.
printf '\n==== python, beside simulation, clippy and lint\n'
{
    lane simulation nice -n 19 $simulation
    lane clippy nice -n 19 scripts/lint.sh rust
    lane lint nice -n 19 scripts/lint.sh python
} &
# Most of these tests wait for brokers, so several run at a time; a file's tests share brokers and stay together. In the order of
# names, for the files with the fewest tests are not the shortest.
{
    .venv/bin/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder "$@" || touch $logs/pytest-FAILED
} 2>&1 | tee $logs/python.log
wait

for log in rust corpus setup wheel simulation clippy lint; do
    printf '\n==== %s\n' $log
    cat $logs/$log.log
done
printf '\n==== lanes\n%s\n\n' "$(cat $logs/summary)"
# Once more, for whoever keeps the last lines only.
grep -o 'FAILED at .*' $logs/python.log
grep '^hung: ' $logs/python.log
tail -n 1 $logs/python.log
! grep -q FAILED $logs/summary && [ ! -e $logs/pytest-FAILED ]
