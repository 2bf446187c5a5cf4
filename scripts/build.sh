#!/bin/sh
# Builds the extension into .venv, as an editable install of ottla without its extras; or builds the wheel that users get, and
# installs that. Usage: build.sh gate|release|wheel
set -eu
profile=$1
# As a client of make's job server cargo would compile no more crates at a time than make runs recipes.
unset MAKEFLAGS
. scripts/cargo.sh

# One of the three is there, and says which build .venv has.
rm -f .venv/gate.stamp .venv/release.stamp .venv/wheel.stamp
if [ "$profile" = wheel ]; then
    scripts/wheel.sh
    VIRTUAL_ENV=$PWD/.venv .venv/bin/uv pip install --reinstall --no-deps target/wheels/ottla-*.whl
    # For `benches/python/run.py --other`, which measures the tree of another checkout.
    cp .venv/lib/python*/site-packages/ottla/_ottla.abi3.so python/ottla/
else
    VIRTUAL_ENV=$PWD/.venv .venv/bin/maturin develop --uv --profile "$profile" --locked
fi
touch ".venv/$profile.stamp"
