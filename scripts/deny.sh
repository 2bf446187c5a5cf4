#!/bin/sh
# Checks licences, sources, bans and advisories of all dependencies by deny.toml. Arguments go to cargo-deny:
# `deny.sh --offline` uses the advisories that it fetched before.
set -eu
if ! version=$(cargo deny --version 2>/dev/null); then
    printf 'missing: cargo-deny; nothing was checked\n   cure: cargo install cargo-deny --locked\n' >&2
    exit 1
fi
printf '%s\n' "$version"
exec cargo deny --locked "$@" check
