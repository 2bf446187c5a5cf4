# For scripts to source: how the gate calls cargo. sccache and cargo-nextest are used where this machine has them.

# The compiler's results, kept between checkouts.
if [ -z "${RUSTC_WRAPPER:-}" ] && command -v sccache >/dev/null; then
    export RUSTC_WRAPPER=sccache
fi

# The Rust tests, in one process for each if nextest is there. Arguments go to `cargo test` or `cargo nextest run`.
rust_tests() {
    if cargo nextest --version >/dev/null 2>&1; then
        set -- nextest run --cargo-profile gate --workspace --exclude ottla-sim --locked "$@"
    else
        set -- test --profile gate --workspace --exclude ottla-sim --locked "$@"
    fi
    # See [profile.gate] in Cargo.toml.
    CARGO_PROFILE_GATE_OPT_LEVEL=0 cargo "$@"
}

# The simulation. ottla-module has no tests; with it cargo chooses the features of the extension.
simulation() {
    cargo test --profile gate -p ottla-sim -p ottla-module --locked "$@"
}

# Clippy, after a build of the extension. PyO3's build scripts get what maturin gave them: else they would run again, and maturin would
# compile PyO3 and the binding again.
clippy() {
    pyo3_config=$(ls -t target/maturin/pyo3-config-*.txt 2>/dev/null | head -n 1)
    if [ -n "$pyo3_config" ]; then
        set -- PYO3_BUILD_EXTENSION_MODULE=1 PYO3_CONFIG_FILE="$PWD/$pyo3_config"
    fi
    env "$@" cargo clippy --profile gate --workspace --all-targets --locked -- -D warnings
}
