#!/bin/sh
# Unpacks what `make wheels` needs for other platforms from Debian's packages into FOLDER, without root and without installing anything:
# a Rust compiler without cargo, with its sources, the standard library for AArch64, LLVM's llvm-profdata and its runtime for counters (for
# musl_python.sh), qemu, and a folder with an AArch64 Python for qemu to run.
# Usage: debian_toolchain.sh FOLDER
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)

# Packages of another architecture need lists of their own; so the system's stay as they are.
apt() {
    architecture=$1
    shift
    state=$folder/apt/$architecture
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    [ -e "$state/status" ] || : >"$state/status"
    apt-get --quiet=2 -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o APT::Sandbox::User="$(id -un)" \
        -o Dir::State::lists="$state/lists" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" "$@"
}

# unpack ARCHITECTURE INTO PACKAGE...: the packages, without what they depend on.
unpack() {
    architecture=$1 into=$2
    shift 2
    mkdir -p "$folder/packages" "$into"
    (cd "$folder/packages" && apt "$architecture" download "$@")
    for package; do
        for file in "$folder"/packages/"$package"_*_"$architecture".deb "$folder"/packages/"$package"_*_all.deb; do
            [ ! -e "$file" ] || dpkg-deb --extract "$file" "$into"
        done
    done
}

machine=$(dpkg --print-architecture)
apt "$machine" update
apt arm64 update
version=$(apt-cache -o Dir::State::lists="$folder/apt/$machine/lists" depends libstd-rust-web-dev | sed -n 's/.*Depends: libstd-rust-web-//p')
llvm=$(apt-cache -o Dir::State::lists="$folder/apt/$machine/lists" depends "libstd-rust-web-$version" | sed -n 's/.*Depends: \(libllvm.*\)/\1/p')
unpack "$machine" "$folder/rust" rustc-web libstd-rust-web-dev "libstd-rust-web-$version" "$llvm" "llvm-${llvm#libllvm}" rust-web-src \
    "libclang-rt-${llvm#libllvm}-dev"
unpack arm64 "$folder/rust" libstd-rust-web-dev "libclang-rt-${llvm#libllvm}-dev"
unpack "$machine" "$folder/qemu" qemu-user-static
unpack arm64 "$folder/aarch64" libc6 libgcc-s1 zlib1g libexpat1 libssl3 libffi8 libbz2-1.0 liblzma5 libuuid1 libsqlite3-0 libstdc++6 \
    libpython3.11-minimal libpython3.11-stdlib python3.11-minimal python3.11 media-types
