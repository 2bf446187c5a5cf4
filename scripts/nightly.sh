#!/bin/sh
# The nightly ring: what is too long or too random for each change. Every step runs; the status says whether all passed. Logs are in
# target/rings/nightly. Usage: nightly.sh [STEP...], of: seeds coverage properties matrices wheel fuzz brokers faults franz pyspark msrv deny flakes
set -u
out=target/rings/nightly
mkdir -p $out
# Each day has seeds of its own, without a file that counts them: SEEDS for each theme, from a number that grows by SEEDS a day.
SEEDS=${SEEDS:-20000}
DAY=${DAY:-$(($(date +%s) / 86400 - 20000))}
FIRST=$((DAY * SEEDS))

seeds() {
    for theme in everything transactions groups consumer-groups share deposed truncated; do
        echo "simulate $theme $SEEDS $FIRST"
        cargo run --release --locked --quiet -p ottla-sim --bin simulate -- $theme "$SEEDS" "$FIRST" || return 1
    done
}

# All stored seeds, with the faults that must strike and the states that must be entered.
coverage() { cargo test --release --locked -p ottla-sim -- --include-ignored; }
matrices() { OTTLA_SEED=$FIRST .venv/bin/python -m pytest --ring nightly --numprocesses 2 --dist loadfile --results $out/matrices.json; }
# CI tests a wheel of the gate's profile; this one is what users get.
wheel() {
    make wheel && .venv/bin/python -m pytest --ring install --results $out/wheel.json && .venv/bin/python -m pytest \
        tests/install/test_wheel.py::test_size_of_the_optimised_wheel
}
# New random schemas of each format, beside the reference libraries and Spark.
properties() {
    OTTLA_SEED=$FIRST OTTLA_CASES=${CASES:-20000} .venv/bin/python -m pytest tests/property tests/spark/test_typed_generated.py \
        --numprocesses 2 --results $out/properties.json
}
fuzz() { scripts/fuzz.sh "${SECONDS_EACH:-300}"; }
brokers() { make brokers; }
faults() { make faults; }
franz() { make franz; }
pyspark() { make pyspark; }
msrv() { scripts/msrv.sh; }
# DENY=--offline on a machine that reaches no forge: the advisories are those that cargo-deny fetched before.
deny() { scripts/deny.sh ${DENY:-}; }
flakes() { make flakes N=20; }

status=0
[ $# -gt 0 ] || set -- seeds coverage properties matrices wheel fuzz brokers faults franz pyspark msrv deny flakes
printf 'seeds of day %s: from %s on\n' "$DAY" "$FIRST"
for step; do
    begin=$(date +%s)
    if "$step" >"$out/$step.log" 2>&1; then result=passed; else result=FAILED status=1; fi
    printf '%-10s %s in %d s; the end of %s:\n' "$step" $result $(($(date +%s) - begin)) "$out/$step.log"
    tail -n 5 "$out/$step.log" | sed 's/^/    /'
done
exit $status
