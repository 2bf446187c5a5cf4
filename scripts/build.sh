#!/bin/sh
# Builds the release extension into .venv and installs the extras. Usage: build.sh EXTRA,EXTRA...
set -eu
extras=$1
python=.venv/bin/python

# A machine without Java 17 gets the runtime that PyPI carries.
java=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
if [ "${java:-0}" -lt 17 ]; then
    extras=$extras,java
fi

features=$(scripts/features.sh "$python")

# The first time there is much to fetch, so show it; after that pip only says that all is there.
[ ! -e .venv/demo.stamp ] || export PIP_QUIET=1

VIRTUAL_ENV=$PWD/.venv exec .venv/bin/maturin develop --release --locked --extras "$extras" $features
