#!/bin/sh
# Checks that everything compiles with the oldest Rust that Cargo.toml allows. `MSRV_RUSTC=/path/to/rustc` names a compiler that
# rustup does not know. Where there is none, only `make lint` guards the version: its lint clippy::incompatible_msrv knows since when
# the standard library has each function, but not since when the language has a construct.
set -eu
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if [ -n "${MSRV_RUSTC:-}" ]; then
    rustc=$MSRV_RUSTC
elif ! rustc=$(rustup which --toolchain "$wanted" rustc 2>/dev/null); then
    cat >&2 <<END
missing: Rust $wanted, the oldest that Cargo.toml allows; nothing was checked
   cure: rustup toolchain install $wanted --profile minimal    # or: MSRV_RUSTC=/path/to/rustc
END
    exit 1
fi
found=$("$rustc" --version | cut -d ' ' -f 2)
case $found in
"$wanted" | "$wanted".*) ;;
*)
    printf '%s is Rust %s, and Cargo.toml allows %s; nothing was checked\n' "$rustc" "$found" "$wanted" >&2
    exit 1
    ;;
esac
RUSTC=$rustc CARGO_TARGET_DIR=target/msrv cargo check --workspace --all-targets --locked
