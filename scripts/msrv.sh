#!/bin/sh
# Checks that everything compiles with the oldest Rust that Cargo.toml allows. `MSRV_RUSTC=/path/to/rustc` names a compiler that
# rustup does not know.
set -eu
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if [ -n "${MSRV_RUSTC:-}" ]; then
    rustc=$MSRV_RUSTC
elif ! rustc=$(rustup which --toolchain "$wanted" rustc 2>/dev/null); then
    printf 'missing: Rust %s\n   cure: rustup toolchain install %s --profile minimal    # or: MSRV_RUSTC=/path/to/rustc\n' "$wanted" "$wanted" >&2
    exit 1
fi
found=$("$rustc" --version | cut -d ' ' -f 2)
case $found in
"$wanted" | "$wanted".*) ;;
*)
    printf '%s is Rust %s, and Cargo.toml allows %s\n' "$rustc" "$found" "$wanted" >&2
    exit 1
    ;;
esac
RUSTC=$rustc CARGO_TARGET_DIR=target/msrv cargo check --workspace --all-targets --locked
