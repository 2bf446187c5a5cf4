#!/bin/sh
# Checks licences, sources, bans and advisories of all dependencies: cargo-deny by deny.toml, and then cargo-audit with the advisories that
# cargo-deny has. Arguments go to cargo-deny: `deny.sh --offline` uses the crates and the advisories that were fetched before.
set -eu
for tool in deny audit; do
    if ! version=$(cargo $tool --version 2>/dev/null); then
        printf 'missing: cargo-%s; nothing was checked\n   cure: cargo install cargo-%s --locked\n' $tool $tool >&2
        exit 1
    fi
    printf '%s\n' "$version"
done
cargo deny --locked "$@" check
database=$(ls -td "${CARGO_HOME:-$HOME/.cargo}"/advisory-dbs/advisory-db-* | head -n 1)
printf 'advisories: %s\n' "$(git -C "$database" log -1 --format='%h of %cs')"
cargo audit --deny warnings --no-fetch --stale --db "$database"
