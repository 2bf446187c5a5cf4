#!/bin/sh
# All Rust tests, by cargo-nextest where it is installed. The extension module links against the interpreter that loads it; pytest is
# its test.
set -eu
. scripts/cargo.sh
