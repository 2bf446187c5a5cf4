#!/bin/sh
# Compiles a CPython for musl, which neither Debian nor PyPI has, into FOLDER/MACHINE-musl, with musl's loader beside it; `make wheels
# TOOLS=FOLDER` runs the wheels for musl with it. The sources are those of Debian's python3.11, the compiler is zig of the group `release`.
# It has no modules that need other libraries (ssl, zlib, ctypes). For another processor it needs a python3.11 of this machine.
# Usage: musl_python.sh FOLDER MACHINE, after debian_toolchain.sh FOLDER
set -eu
folder=$(cd "$1" && pwd)
machine=$2
case $machine in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) echo "usage: scripts/musl_python.sh FOLDER x86_64|aarch64" >&2; exit 2 ;;
esac
zig="$PWD/.venv/bin/python -m ziglang"
work=$folder/musl
mkdir -p "$work/lists/partial" "$work/sources"
cd "$work"

# Only the archive of CPython itself is needed, so an update of Debian's changes that a mirror lacks does not matter.
if [ ! -e python3.11.tar.gz ]; then
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        [ ! -e "$file" ] || sed 's/^deb /deb-src /; s/^Types: deb$/Types: deb-src/' "$file" >"sources/${file##*/}"
    done
    set -- --quiet=2 -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources" -o Dir::State::lists="$work/lists"
    apt-get "$@" update
    apt-get "$@" --download-only source python3.11 || [ -e python3.11_*.orig.tar.gz ]
    mv python3.11_*.orig.tar.gz python3.11.tar.gz
fi
rm -rf "source" "build-$machine"
mkdir source "build-$machine"
tar -xzf python3.11.tar.gz -C source --strip-components=1

cd "build-$machine"
CC="$zig cc -target $machine-linux-musl -dynamic" AR="$zig ar" RANLIB="$zig ranlib" READELF=$(command -v readelf) CFLAGS="-O1 -g0 -Wno-date-time" \
    ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no ac_cv_buggy_getaddrinfo=no \
    ../source/configure --host="$machine-linux-musl" --build="$(uname -m)-linux-gnu" --with-build-python="$(command -v python3.11)" \
    --prefix=/usr --without-ensurepip --disable-test-modules
make -j"$(nproc)"
make install DESTDIR="$folder/$machine-musl"

mkdir -p "$folder/packages"
cd "$folder/packages"
apt-get --quiet=2 -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o APT::Sandbox::User="$(id -un)" \
    -o Dir::State::lists="$folder/apt/$architecture/lists" -o Dir::State::status="$folder/apt/$architecture/status" \
    -o Dir::Cache="$folder/apt/$architecture/cache" download musl
dpkg-deb --extract musl_*_"$architecture".deb "$folder/$machine-musl"
