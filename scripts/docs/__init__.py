"""The documentation site: what `make docs` runs."""
