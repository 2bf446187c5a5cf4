# Everything is built into .venv and target; a target that is up to date does nothing.
PYTHON    ?= python3
# How long `make fuzz` runs each target.
SECONDS   ?= 20
# How many seeds `make simulate` runs, the first of them, and what they are about: everything, `transactions`, `groups`,
# `consumer-groups`, `share`, share groups, `deposed`, leaders that do not know that they are replaced, or `truncated`, logs that lose what
# was read of them.
SEEDS     ?= 20000
FIRST     ?= 0
THEME     ?=
# host:port of a real Kafka for `make demo`; without it the demo starts the embedded broker.
BOOTSTRAP ?=
# How often `make flakes` runs each test, and which; without FILES, the gate.
N         ?= 20
FILES     ?=
# The steps of `make nightly`; without it, all. Arguments of `make test-real` for pytest.
STEPS     ?=
ARGS      ?=
# The releases of `make brokers`; without it, all.
RELEASES  ?=
# Options of `make deny` for cargo-deny, such as --offline.
DENY      ?=
# For `make wheels`: the folder that scripts/debian_toolchain.sh made.
TOOLS     ?=

export PATH := $(PATH):$(HOME)/.cargo/bin

SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates schemas -type f -not -name '*.md')

# Python's packages are fetched while cargo builds.
BESIDE := $(MAKE) --no-print-directory --jobs=2

# The build that .venv has, of any profile; the first is the gate's, which is sooner there.
BUILT := $(or $(wildcard .venv/wheel.stamp .venv/release.stamp),.venv/gate.stamp)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-real nightly flakes wheel wheels deny fuzz simulate brokers franz faults pyspark bench speed lint docs docs-serve

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 10

setup:  ## build the release extension into .venv, with all that development needs
	+@$(BESIDE) .venv/dev.stamp .venv/release.stamp

demo:  ## run the main job: flights through a broker and Spark to Parquet and a plot (BOOTSTRAP=host:port for a real Kafka)
	+@$(BESIDE) .venv/demo.stamp $(BUILT)
	.venv/bin/python examples/flights.py $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP))

test: .venv/python.stamp  ## run the gate: lint, Rust tests, the simulation's first seeds, Python tests without a JVM
	scripts/test.sh

test-real: .venv/dev.stamp $(BUILT)  ## run the real-world ring: real Kafka, foreign clients, faults, Kerberos, Spark; some failures run again (ARGS=... for pytest)
	.venv/bin/python -m tests.rings.real $(ARGS)

nightly: .venv/dev.stamp .venv/release.stamp  ## run what is too long for each change: new seeds, fuzz, all releases, faults, all matrices (STEPS=...; hours)
	scripts/nightly.sh $(STEPS)

flakes: .venv/dev.stamp $(BUILT)  ## run tests N=20 times on one core in random order while processes stand still (FILES=...; without it the gate)
	.venv/bin/python -m tests.rings.flakes $(FILES) --times $(N)

wheel: .venv/python.stamp  ## build the wheel that `pip install` takes, into target/wheels
	scripts/wheel.sh

wheels: .venv/python.stamp  ## build the source distribution and a wheel for each platform, audit and try them (TOOLS=folder of scripts/debian_toolchain.sh, ONLY=platform)
	scripts/packages.sh --group=release --group=training
	.venv/bin/python -m scripts.wheels $(if $(TOOLS),--tools $(TOOLS)) $(if $(ONLY),--only $(ONLY))

deny:  ## check licences, sources, bans and advisories of all dependencies (needs cargo-deny and cargo-audit)
	scripts/deny.sh $(DENY)

fuzz:  ## give hostile bytes to everything that reads any, SECONDS=20 for each target; what is found becomes a test
	scripts/fuzz.sh $(SECONDS)

simulate:  ## run clients and brokers as one program under simulated time, SEEDS=20000 from FIRST=0 on (THEME=transactions, groups, consumer-groups, share, deposed or truncated); a failure prints its trace
	cargo run --release --locked -p ottla-sim --bin simulate -- $(THEME) $(SEEDS) $(FIRST)

brokers: .venv/dev.stamp .venv/release.stamp  ## use real Kafka of each generation, 0.8.2 to 4.4, and print the table of docs/results/releases.md
	.venv/bin/python -m tests.brokers.releases $(RELEASES)

franz: .venv/dev.stamp .venv/release.stamp  ## run franz-go's own client suite on the embedded broker, with 500,000 records and with connections that die
	.venv/bin/python -m tests.integration.franz_suite
	.venv/bin/python -m tests.integration.franz_suite --chaos --nodes 3

faults: .venv/dev.stamp .venv/release.stamp  ## produce, copy in transactions, through chains of groups, and stream while three nodes of real Kafka are killed, paused, restarted and cut off
	.venv/bin/python -m tests.integration.fault_runs
	.venv/bin/python -m tests.integration.chain --fault cut
	.venv/bin/python -m tests.spark.steady

pyspark: .venv/dev.stamp .venv/release.stamp  ## try each release of PySpark from 3.5 on, and Spark Connect, on real Kafka, and print the table of docs/spark/platforms.md
	.venv/bin/python -m tests.spark.versions

bench: .venv/dev.stamp .venv/wheel.stamp  ## compare clients on one broker, and codecs (ONLY=consume, latency, codec, spark, scaling: what holds the word)
	.venv/bin/python benches/python/run.py $(if $(ONLY),--only $(ONLY))

speed: .venv/dev.stamp .venv/wheel.stamp  ## measure the wheel in all shapes of work, and write docs/results/speed.md from the figures
	for part in shape 100B end-to-end spark; do \
		.venv/bin/python benches/python/run.py --only $$part && .venv/bin/python benches/python/page.py || exit 1; \
	done

lint: .venv/dev.stamp  ## check formats, lints, types and the rules about who may depend on whom
	scripts/lint.sh

docs: target/docs/venv.stamp  ## build the documentation site into target/site, one folder for each version
	target/docs/venv/bin/python -m scripts.docs.build

docs-serve: target/docs/venv.stamp  ## show the documentation site at http://localhost:8000 while you write it
	target/docs/venv/bin/python -m scripts.docs.build --serve

# The site needs neither the extension nor a compiler.
target/docs/venv.stamp: pyproject.toml
	@mkdir -p target/docs
	$(PYTHON) -m venv target/docs/venv
	target/docs/venv/bin/python scripts/docs/requirements.py | target/docs/venv/bin/python -m pip install --quiet --requirement /dev/stdin
	@touch $@

# What .venv has: demo.stamp and dev.stamp are of packages; gate.stamp, release.stamp or wheel.stamp, of ottla, is written by build.sh.
.venv/python.stamp: Makefile
	@scripts/prerequisites.sh $(PYTHON)
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet 'maturin>=1.13,<2' uv 'deflate>=0.8'
	@touch $@

.venv/demo.stamp: .venv/python.stamp pyproject.toml
	scripts/packages.sh spark arrow demo
	@touch $@

.venv/dev.stamp: .venv/python.stamp pyproject.toml
	scripts/packages.sh spark arrow demo dev
	@touch $@ .venv/demo.stamp

.venv/gate.stamp .venv/release.stamp: .venv/%.stamp: .venv/python.stamp $(SOURCES)
	scripts/build.sh $*

# Unlike the others this is no editable install.
.venv/wheel.stamp: .venv/python.stamp $(SOURCES) $(shell find python -name '*.py')
	scripts/build.sh wheel
