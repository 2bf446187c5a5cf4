#!/bin/sh
# Builds a CPython for musl from Debian's sources into FOLDER/x86_64-musl, where `make wheels TOOLS=FOLDER` looks for it: neither Debian
# nor PyPI has one. zig compiles it (`scripts/packages.sh --group=release` installs zig). Debian's musl is the loader that runs it.
# The interpreter lacks the modules that need a library other than zlib, such as ssl and ctypes: ottla needs none of them.
# Usage: musl_python.sh FOLDER
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=$PWD/.venv/bin/python
work=$folder/musl
root=$folder/x86_64-musl
state=$folder/apt/source
mkdir -p "$work" "$root/lib" "$state/lists/partial" "$state/cache/archives/partial"

# Where the system's packages come from, their sources are too; its own lists stay as they are.
{
    apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages'
    apt-get indextargets --format 'deb-src $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages'
} | sort -u >"$state/sources.list"
apt() {
    apt-get --quiet=2 -o APT::Sandbox::User="$(id -un)" -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" "$@"
}
apt update
cd "$work"
apt download musl
# The archives of the authors only: what Debian changes in them is not needed.
apt source --download-only --tar-only python3.11 zlib
for name in python3.11 zlib; do
    mkdir -p "$name"
    tar --extract --file "$name"_*.orig.tar.* --strip-components=1 --directory "$name"
done
dpkg-deb --extract musl_*.deb musl
cp musl/lib/ld-musl-x86_64.so.1 "$root/lib/"

# CPython's setup.py adds the system's folders, whose headers are glibc's.
cat >cc <<END
#!/bin/bash
arguments=()
for argument; do
    case \$argument in
    -I/usr/* | -L/usr/* | -L/lib*) ;;
    *) arguments+=("\$argument") ;;
    esac
done
exec "$python" -m ziglang cc -target x86_64-linux-musl -dynamic -w -Wno-date-time "\${arguments[@]}"
END
cat >ar <<END
#!/bin/sh
exec "$python" -m ziglang ar "\$@"
END
chmod +x cc ar
export CC="$work/cc" AR="$work/ar"
(cd zlib && ./configure --static && make libz.a)

# What configure cannot find out without running a program of the other C library. Debian's musl is older than zig's: it has no preadv2.
export ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no ac_cv_working_tzset=yes ac_cv_buggy_getaddrinfo=no
export ac_cv_func_preadv2=no ac_cv_func_pwritev2=no
export READELF=/usr/bin/readelf ZLIB_CFLAGS="-I$work/zlib" ZLIB_LIBS="-L$work/zlib -lz" CPPFLAGS="-I$work/zlib" LDFLAGS="-L$work/zlib"
mkdir -p build
cd build
# The suffix of extension modules (linux-musl) follows from --build. It differs from --host, or configure would run what it compiles.
../python3.11/configure --host=x86_64-linux-musl --build=x86_64-pc-linux-musl --with-build-python="$(command -v python3.11)" \
    --disable-test-modules --without-ensurepip --prefix="$root/usr" CFLAGS="-O1 -g0"
make --jobs="$(nproc)"
make install
"$root/lib/ld-musl-x86_64.so.1" "$root/usr/bin/python3.11" --version
