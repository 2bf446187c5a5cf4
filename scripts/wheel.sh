#!/bin/sh
# Builds the source distribution and, from it, the wheel that `pip install` takes, into target/wheels: a source distribution that
# lacks a file builds nothing. It has fewer crates than Cargo.lock names, which cargo then shortens, so this is not `--locked`.
# Only the wheel is stripped, in its last step: the builds of `make` keep the lines that profilers show. maturin puts an SBOM of
# all crates into it, made by the cargo-cyclonedx that it carries. The linker (LLD, which Rust brings) folds functions of the same code.
# Usage: wheel.sh [gate]. With `gate` both come from the tree, by the gate's profile, whose crates are built: for tests of what is in
# them, into target/wheels/gate.
set -eu
build() {
    VIRTUAL_ENV=$PWD/.venv .venv/bin/maturin build "$@" --strip --interpreter "$PWD/.venv/bin/python" --target-dir "$PWD/target" \
        -- -C link-arg=-Wl,--icf=all
}
case ${1:-release} in
release)
    rm -f target/wheels/ottla-*
    build --release --sdist --out target/wheels
    ;;
gate)
    rm -f target/wheels/gate/ottla-*
    .venv/bin/maturin sdist --out target/wheels/gate
    build --profile gate --locked --out target/wheels/gate
    ;;
esac
