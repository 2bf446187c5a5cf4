#!/bin/sh
# Builds the wheel that `pip install` takes into target/wheels. Only the wheel is stripped, in its last step: the builds of
# `make` keep the lines that profilers show. maturin puts an SBOM of all crates into it, made by the cargo-cyclonedx that it
# carries.
set -eu
python=.venv/bin/python
rm -f target/wheels/ottla-*.whl
VIRTUAL_ENV=$PWD/.venv .venv/bin/maturin build --release --locked --strip --out target/wheels --interpreter $python
