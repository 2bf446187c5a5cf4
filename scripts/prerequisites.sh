#!/bin/sh
# Names what this machine lacks to build ottla, each with the one line that installs it. Usage: prerequisites.sh [python]
python=${1:-python3}
missing=0

lacks() {
    missing=1
    printf 'missing: %s\n   cure: %s\n' "$1" "$2" >&2
}

# at_least WANTED ACTUAL: compares versions such as 1.88 and 1.90.0.
at_least() {
    printf '%s\n%s\n' "$1" "$2" | sort -V -C
}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    lacks "Python 3.11 or newer (tried $python)" "sudo apt install python3 python3-venv    # or: make PYTHON=/path/to/python3.12"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    lacks "the venv module of $python" "sudo apt install python3-venv"
fi

rust=$(rustc --version 2>/dev/null | cut -d ' ' -f 2)
if [ -z "$rust" ] || ! command -v cargo >/dev/null; then
    lacks "Rust 1.88 or newer" "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
elif ! at_least 1.88 "$rust"; then
    lacks "Rust 1.88 or newer (found $rust)" "rustup update stable"
fi

if ! command -v cc >/dev/null; then
    lacks "a C compiler, which links Rust programs and builds zstd" "sudo apt install build-essential"
fi

exit $missing
