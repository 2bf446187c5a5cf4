#!/bin/sh
# Runs every fuzz target of tests/fuzz for a while. Usage: fuzz.sh SECONDS [TARGET...]
# What a target finds is kept in tests/fuzz/found/TARGET, where `make test` replays it; what it learned, in target/fuzz/corpus.
set -u
seconds=$1
shift
folder=tests/fuzz
# Sanitizers are for compilers that allow what is not stable; this one is, and allows it all the same.
export RUSTC_BOOTSTRAP=1
# Freed memory is watched for a while, but not for so long that it looks like a leak.
export ASAN_OPTIONS=quarantine_size_mb=16:detect_leaks=0

if ! cargo fuzz --version >/dev/null 2>&1; then
    printf 'missing: cargo-fuzz\n   cure: cargo install cargo-fuzz --locked\n' >&2
    exit 1
fi
if ! command -v c++ >/dev/null; then
    printf 'missing: a C++ compiler, which builds libFuzzer\n   cure: sudo apt install build-essential\n' >&2
    exit 1
fi

options="--fuzz-dir $folder --features libfuzzer --target-dir target/fuzz/build --codegen-units 16"
targets=${*:-$(sed -n 's|^path = "targets/\(.*\)\.rs"|\1|p' $folder/Cargo.toml)}

cargo run --quiet --locked -p ottla-fuzz --bin seeds target/fuzz/seeds || exit 1
for target in $targets; do
    cargo fuzz build $options $target || exit 1
done

status=0
for target in $targets; do
    mkdir -p target/fuzz/corpus/$target target/fuzz/logs $folder/found/$target
    log=target/fuzz/logs/$target
    if cargo fuzz run $options $target target/fuzz/corpus/$target target/fuzz/seeds/$target -- \
        -dict=$folder/dictionary -max_total_time=$seconds -timeout=1 -rss_limit_mb=512 -max_len=4096 -len_control=0 \
        -artifact_prefix=$folder/found/$target/ -print_final_stats=1 >$log 2>&1
    then result=clean; else result=FOUND status=1; fi
    printf '%-18s %s: %s inputs, %s a second, coverage %s, peak %s MiB\n' $target $result \
        $(sed -n 's/^stat::number_of_executed_units: *//p' $log) \
        $(sed -n 's/^stat::average_exec_per_sec: *//p' $log) \
        $(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' $log | tail -1) \
        $(sed -n 's/^stat::peak_rss_mb: *//p' $log)
    [ $result = clean ] || tail -n 30 $log
    rmdir $folder/found/$target 2>/dev/null
done
rmdir $folder/found 2>/dev/null
exit $status
