"""`python -m ottla.spark.ingest CONFIG.toml` is `ottla ingest CONFIG.toml`, also for spark-submit."""

import sys

from ottla.cli import main

if __name__ == "__main__":
    sys.exit(main(["ingest", *sys.argv[1:]]))
