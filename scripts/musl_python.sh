#!/bin/sh
# Builds a CPython for musl from Debian's sources into FOLDER/MACHINE-musl, where `make wheels TOOLS=FOLDER` looks for it: neither Debian
# nor PyPI has one. zig compiles it (`scripts/packages.sh --group=release` installs zig). The loader that runs it is musl from Debian's
# sources; those are of 1.2.3, which knows no relative relocations in packed form (DT_RELR) as the libraries of pyarrow have them, so
# these are added. The interpreter lacks the modules that need a library other than zlib, such as ssl and ctypes: ottla needs none of them.
# LLVM's runtime for counters goes there too, by which a wheel for musl is profiled. Debian's was compiled for glibc, with checks of buffers
# (_FORTIFY_SOURCE) that musl has no functions for: two of those are added.
# debian_toolchain.sh FOLDER comes before this script. MACHINE is x86_64 or aarch64; without it, the one of this machine.
# Usage: musl_python.sh FOLDER [MACHINE]
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
machine=${2:-$(uname -m)}
python=$PWD/.venv/bin/python
work=$folder/musl-$machine
root=$folder/$machine-musl
state=$folder/apt/source
mkdir -p "$work" "$root/lib" "$state/lists/partial" "$state/cache/archives/partial"

# Where the system's packages come from, their sources are too; its own lists stay as they are. Mirrors may lack the archives of security
# updates.
{
    apt-get indextargets --format 'deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages'
    apt-get indextargets --format 'deb-src $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages'
} | grep -v security | sort -u >"$state/sources.list"
apt() {
    apt-get --quiet=2 -o APT::Sandbox::User="$(id -un)" -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" "$@"
}
apt update
cd "$work"
# The archives of the authors only: what Debian changes in them is not needed.
apt source --download-only --tar-only musl python3.11 zlib
for name in musl python3.11 zlib; do
    rm -rf "$name"
    mkdir "$name"
    tar --extract --file "$name"_*.orig.tar.* --strip-components=1 --directory "$name"
done

# https://www.sco.com/developers/gabi/latest/ch4.reloc.html#relative_relocations
cat >packed.c <<END
static void relocate_packed(struct dso *p) {
    size_t size, start, *where = 0;
    if (!search_vec(p->dynv, &size, 35) || !search_vec(p->dynv, &start, 36))
        return;
    size_t *entry = laddr(p, start), *end = entry + size / sizeof *entry;
    for (; entry < end; entry++) {
        if (*entry & 1) {
            size_t bits = *entry >> 1;
            for (size_t *each = where; bits; bits >>= 1, each++)
                if (bits & 1)
                    *each += (size_t)p->base;
            where += 8 * sizeof *where - 1;
        } else {
            where = laddr(p, *entry);
            *where++ += (size_t)p->base;
        }
    }
}
END
sed -i -e '/^static int search_vec/,/^}/{/^}/r packed.c
}' -e 's/^\t\tif (NEED_MIPS_GOT_RELOCS)$/\t\trelocate_packed(p);\n&/' musl/ldso/dynlink.c
grep -q "relocate_packed(p);" musl/ldso/dynlink.c

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
exec "$python" -m ziglang cc -target $machine-linux-musl -dynamic -w -Wno-date-time "\${arguments[@]}"
END
for name in ar ranlib; do
    printf '#!/bin/sh\nexec "%s" -m ziglang %s "$@"\n' "$python" $name >$name
done
chmod +x cc ar ranlib
export CC="$work/cc" AR="$work/ar" RANLIB="$work/ranlib"
(cd musl && ./configure --target="$machine-linux-musl" --disable-static && make --jobs="$(nproc)" lib/libc.so)
# zig adds a runtime of its own, which hides what it has in common with the C library. So the objects are linked again, with LLVM's.
llvm=$(echo "$folder"/rust/usr/lib/llvm-*/lib/clang/*/lib/linux)
(cd musl && "$python" -m ziglang ld.lld -shared -e _dlstart --hash-style=both -Bsymbolic-functions --dynamic-list=dynamic.list \
    -o lib/libc.so $(find obj/src obj/ldso -name '*.lo') "$llvm/libclang_rt.builtins-$machine.a")
cp musl/lib/libc.so "$root/lib/ld-musl-$machine.so.1"

cat >checked.c <<END
#include <stdarg.h>
#include <stdio.h>

int __fprintf_chk(FILE *file, int flag, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int written = vfprintf(file, format, arguments);
    va_end(arguments);
    return written;
}

int __snprintf_chk(char *text, size_t size, int flag, size_t capacity, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return written;
}
END
"$CC" -c -fPIC -O2 checked.c -o checked.o
cp "$llvm/libclang_rt.profile-$machine.a" "$root/lib/libclang_rt.profile.a"
"$AR" r "$root/lib/libclang_rt.profile.a" checked.o

(cd zlib && ./configure --static && make libz.a)

# What configure cannot find out without running a program of the other C library. Debian's musl is older than zig's: it has no preadv2.
export ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no ac_cv_working_tzset=yes ac_cv_buggy_getaddrinfo=no
export ac_cv_func_preadv2=no ac_cv_func_pwritev2=no
export READELF=/usr/bin/readelf ZLIB_CFLAGS="-I$work/zlib" ZLIB_LIBS="-L$work/zlib -lz" CPPFLAGS="-I$work/zlib" LDFLAGS="-L$work/zlib"
mkdir -p build
cd build
# The suffix of extension modules (linux-musl) follows from --build. It differs from --host, or configure would run what it compiles.
../python3.11/configure --host="$machine-linux-musl" --build="$(uname -m)-pc-linux-musl" --with-build-python="$(command -v python3.11)" \
    --disable-test-modules --without-ensurepip --prefix="$root/usr" CFLAGS="-O1 -g0"
make --jobs="$(nproc)"
make install
if [ "$machine" = "$(uname -m)" ]; then
    "$root/lib/ld-musl-$machine.so.1" "$root/usr/bin/python3.11" --version
else
    "$folder/qemu/usr/bin/qemu-$machine-static" -L "$root" "$root/usr/bin/python3.11" --version
fi
