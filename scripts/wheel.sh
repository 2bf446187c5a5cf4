#!/bin/sh
# Builds the source distribution and, from it, the wheel that `pip install` takes, into target/wheels: a source distribution that
# lacks a file builds nothing. It has fewer crates than Cargo.lock names, which cargo then shortens, so this is not `--locked`.
# Only the wheel is stripped, in its last step: the builds of `make` keep the lines that profilers show. maturin puts an SBOM of
# all crates into it, made by the cargo-cyclonedx that it carries. The linker (LLD, which Rust brings) folds functions of the same code
# and puts similar functions and data next to each other, where DEFLATE finds what they share: that saves 6 % of the wheel.
# At last the wheel is compressed as far as its format allows.
# cargo takes a file for changed if it is newer than what was built, and those of the archive are years old: unpacked, they are new.
# Usage: wheel.sh [gate]. With `gate` both come from the tree, by the gate's profile, whose crates are built: for tests of what is in
# them, into target/wheels/gate.
set -eu
root=$PWD
# build OUT PROFILE: the wheel of the sources in this folder.
build() {
    VIRTUAL_ENV=$root/.venv "$root/.venv/bin/maturin" build --strip --interpreter "$root/.venv/bin/python" --target-dir "$root/target" \
        --out "$root/$1" --profile "$2" -- -C link-arg=-Wl,--icf=all,--bp-compression-sort=both
}
profile=${1:-release}
case $profile in
release) out=target/wheels ;;
gate) out=target/wheels/gate ;;
*) echo "usage: scripts/wheel.sh [gate]" >&2; exit 2 ;;
esac
rm -f $out/ottla-*
.venv/bin/maturin sdist --out $out
if [ "$profile" = release ]; then
    sources=$(mktemp -d)
    trap 'rm -rf "$sources"' EXIT
    tar -xzf $out/ottla-*.tar.gz -C "$sources" --strip-components=1 --touch
    cd "$sources"
fi
build $out "$profile"
[ "$profile" = gate ] || "$root/.venv/bin/python" "$root/scripts/compress_wheel.py" "$root"/$out/ottla-*.whl
