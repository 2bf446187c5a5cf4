#!/bin/sh
# Builds the source distribution and, from it, the wheel that `pip install` takes, into target/wheels: a source distribution that
# lacks a file builds nothing. It has fewer crates than Cargo.lock names, which cargo then shortens, so this is not `--locked`.
# Only the wheel is stripped, in its last step: the builds of `make` keep the lines that profilers show. maturin puts an SBOM of
# all crates into it, made by the cargo-cyclonedx that it carries. The linker (LLD, which Rust brings) folds functions of the same code.
# Usage: wheel.sh [PROFILE]. Another profile than `release` is for tests of what is in the wheel, and goes to target/wheels/PROFILE.
set -eu
profile=${1:-release}
case $profile in release) out=target/wheels ;; *) out=target/wheels/$profile ;; esac
rm -f $out/ottla-*
VIRTUAL_ENV=$PWD/.venv .venv/bin/maturin build --profile "$profile" --strip --sdist --out $out --interpreter "$PWD/.venv/bin/python" \
    --target-dir "$PWD/target" -- -C link-arg=-Wl,--icf=all
