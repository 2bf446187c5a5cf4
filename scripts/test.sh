#!/bin/sh
# The lanes of `make test`, pytest last so that its closing line is the closing line. Every lane runs; the status says
# whether all passed. Arguments go to pytest.
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

# Two rows of lanes at a time, since each waits for its last crate or its slowest test with one core; as long as each other. What a
# lane printed comes after both.
printf '==== clippy, rust and corpus beside setup, simulation, wheel and lint\n'
{
    lane clippy scripts/lint.sh rust
    # The extension module links against the interpreter that loads it; pytest is its test.
    lane rust cargo test --workspace --exclude ottla-python --exclude ottla-sim --locked --quiet
    # As it ships: every line of Kafka's classes, with the table of what was counted.
    lane corpus cargo test --release --locked -p ottla-protocol --test messages --test refusals -- --nocapture
} &
{
    lane setup make setup
    # Optimised: it runs clients and brokers for many simulated hours.
    lane simulation cargo test --release --locked -p ottla-sim --quiet
    # tests/install puts it into an empty environment.
    lane wheel scripts/wheel.sh
    lane lint scripts/lint.sh python
} &
wait
for log in clippy rust corpus setup simulation wheel lint; do
    printf '\n==== %s\n' $log
    cat $logs/$log.log
done
status=0
! grep -q FAILED $logs/summary || status=1

printf '\n==== lanes before pytest\n%s\n\n==== python\n' "$(cat $logs/summary)"
# Most of these tests wait for brokers, so several run at a time; a file's tests share brokers and stay together. In the order of
# names, for the files with the fewest tests are not the shortest.
.venv/bin/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder "$@" || status=1
exit $status
