#!/bin/sh
# All Rust tests, by cargo-nextest where it is installed. ottla-python and ottla-module link against the interpreter that loads them;
# pytest is their test.
set -eu
. scripts/cargo.sh
packages="--workspace --exclude ottla-python --exclude ottla-module --locked"
if [ "$test_runner" = test ]; then
    exec cargo test --profile gate $packages --no-fail-fast --quiet
fi
cargo nextest run --cargo-profile gate $packages --no-fail-fast
# cargo-nextest runs no examples of documentation.
cargo test --profile gate $packages --doc --quiet
