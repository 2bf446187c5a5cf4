"""The facade for threads: `ottla` has its names. Its modules are written by scripts/unasync.py from ottla/aio."""
