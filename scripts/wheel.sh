#!/bin/sh
# Builds the source distribution and, from it, the wheel that `pip install` takes, into target/wheels: a source distribution that
# lacks a file builds nothing. It has fewer crates than Cargo.lock names, which cargo then shortens, so this is not `--locked`.
# Only the wheel is stripped, in its last step: the builds of `make` keep the lines that profilers show. maturin puts an SBOM of
# all crates into it, made by the cargo-cyclonedx that it carries. The linker (LLD, which Rust brings) folds functions of the same code
# and puts similar functions and data next to each other, where DEFLATE finds what they share: that saves 6 % of the wheel.
# At last the wheel is compressed as far as its format allows.
# cargo takes a file for changed if it is newer than what was built, and those of the archive are years old: unpacked, they are new.
# The wheel is optimised by a profile: an instrumented one is built first, and trained (record_profile.py). Without llvm-profdata it is
# built by the profile `release`, and is larger and slower.
# Usage: wheel.sh [gate]. With `gate` both come from the tree, by the gate's profile, whose crates are built: for tests of what is in
# them, into target/wheels/gate.
set -eu
root=$PWD
python=$root/.venv/bin/python
# build OUT PROFILE [OPTION...]: the wheel of the sources in this folder.
build() {
    into=$1 profile=$2
    shift 2
    VIRTUAL_ENV=$root/.venv "$root/.venv/bin/maturin" build --strip --interpreter "$python" --target-dir "$root/target" \
        --out "$root/$into" --profile "$profile" "$@" -- -C link-arg=-Wl,--icf=all,--bp-compression-sort=both
}
# build_by_profile OUT: the same, optimised by a profile. With a target, RUSTFLAGS do not reach build scripts.
build_by_profile() {
    host=$(rustc -vV | sed -n 's/^host: //p')
    (cd "$root" && scripts/packages.sh --group=training)
    rm -rf "$root/target/wheels/instrumented"
    RUSTFLAGS="-C profile-generate" build target/wheels/instrumented wheel --target "$host"
    counted=$root/target/wheels/ottla.profdata
    "$python" "$root/scripts/record_profile.py" "$root"/target/wheels/instrumented/ottla-*.whl "$counted"
    RUSTFLAGS="-C profile-use=$counted" build "$1" wheel --target "$host"
}
case ${1:-release} in
release) out=target/wheels ;;
gate) out=target/wheels/gate ;;
*) echo "usage: scripts/wheel.sh [gate]" >&2; exit 2 ;;
esac
rm -f $out/ottla-*
.venv/bin/maturin sdist --out $out
if [ $out = target/wheels/gate ]; then
    build $out gate
    exit
fi
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
tar -xzf $out/ottla-*.tar.gz -C "$sources" --strip-components=1 --touch
if "$python" scripts/record_profile.py; then
    (cd "$sources" && build_by_profile $out)
else
    (cd "$sources" && build $out release)
fi
"$python" scripts/compress_wheel.py $out/ottla-*.whl
