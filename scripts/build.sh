#!/bin/sh
# Builds the extension into .venv, as an editable install of ottla without its extras. Usage: build.sh gate|release
set -eu
profile=$1
# As a client of make's job server cargo would compile no more crates at a time than make runs recipes.
unset MAKEFLAGS
. scripts/cargo.sh

# One of the two is there, and says which build .venv has.
rm -f .venv/gate.stamp .venv/release.stamp
VIRTUAL_ENV=$PWD/.venv .venv/bin/maturin develop --uv --profile "$profile" --locked
touch ".venv/$profile.stamp"
