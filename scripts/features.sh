#!/bin/sh
# Prints the flag with which maturin builds for an interpreter. Usage: features.sh PYTHON
# The buffer protocol entered the stable ABI with Python 3.11; before, the extension is for that one version.
"$1" -c 'import sys; print("" if sys.version_info >= (3, 11) else "--no-default-features")'
