# make run    build, mount a volume in ./weir-demo, run a real BLAST search on it, and sum up
# make run-cluster   three nodes write one volume together, and one of them is killed
# make check  lints and unit tests             make test    everything that proves it
# make soak   long crash and model runs        make bench   speed, beside the limits and beside peers
# make docs   all pages as a book, in target/book
# make install   as root, below PREFIX         make dist    packages for other machines, in dist/
# needs: cargo cc make fusermount3 /etc/ssl/certs/ca-certificates.crt
SHELL := /bin/bash
CACHE ?= $(or $(WEIR_CACHE),$(HOME)/.cache/weir)
export WEIR_CACHE := $(CACHE)
export CARGO_TARGET_DIR ?= $(CACHE)/target
export PATH := $(CACHE)/bin:$(PATH)
PREFIX ?= /usr/local
# What is tested is built once, with these: fail points and bucket faults, so that it can be killed
# in the act, and ublk. Other features would mean other builds of what they share.
TESTED := --workspace --features weir/failpoints,weir/ublk,weir-object/testing
# The compiler with lints (`cargo clippy` calls the same) makes what is tested, so that dependencies are
# built once, and what was linted is not compiled again.
LINTED := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings
DESTDIR ?=
DIST ?= dist
# What is handed out runs with this glibc and later ones: RHEL 8, Debian 10, and all that came after.
GLIBC := 2.28

.PHONY: all build optimised dist run run-cluster check test lint unit e2e tested-binary soak bench bench-smoke bench-nfs-guest bench-peers docs install tools test-tools clean

all: build

build: tools
	cargo build --profile demo -p weir

# As it is handed out: with optimisation across crates, which takes more than twice as long.
optimised: tools
	cargo build --profile dist -p weir

# Packages; docs/install.md says what they are.
dist: tools
	@scripts/install-tools.sh dist
	WEIR=$$(packaging/build.sh $(GLIBC)) && WEIR=$$WEIR packaging/packages.sh $(DIST) $(GLIBC)

# With WEIR=PROGRAM nothing is built.
ifdef WEIR
run:
	@scripts/install-tools.sh packages-of scripts/demo.sh
	WEIR=$(WEIR) scripts/demo.sh
else
run: tools build
	WEIR=$(CARGO_TARGET_DIR)/demo/weir scripts/demo.sh
endif

run-cluster: tools build
	@scripts/install-tools.sh packages-of scripts/cluster.sh
	WEIR=$(CARGO_TARGET_DIR)/demo/weir scripts/cluster.sh

# What a build needs, and what `make run` shows off with.
tools:
	@scripts/install-tools.sh build

# What the tests need besides: an S3 server, POSIX suites, real programs.
test-tools:
	@scripts/install-tools.sh build test

test: check e2e

check: test-tools lint unit

lint:
	cargo fmt --all --check
	$(LINTED) cargo test $(TESTED) --no-run
	RUSTDOCFLAGS="-D warnings" cargo doc $(TESTED) --no-deps

unit:
	$(LINTED) tests/unit.sh $(TESTED)

# The integration tests' build makes the binaries, too: `layering` weir, `proxy` the benches' proxy,
# `driver` weir-csi.
# The models of links and of nodes are run by cases.
tested-binary:
	$(LINTED) cargo test $(TESTED) --no-run --test layering --test proxy --test links_model --test nodes_model --test driver --example floor

e2e: tested-binary
	WEIR=$(CARGO_TARGET_DIR)/debug/weir tests/run.sh

soak: tested-binary
	WEIR_SOAK=1 $(LINTED) cargo test $(TESTED) --test disk_faults --test moves
	WEIR_SOAK=1 $(LINTED) cargo test $(TESTED) --test links_model -- --nocapture
	WEIR_SOAK=10 $(LINTED) cargo test $(TESTED) --test snapshots_model --test postgres_snapshots -- --nocapture snapshots_keep
	WEIR=$(CARGO_TARGET_DIR)/debug/weir tests/run.sh --soak

# Goals, ratios and plots, in target/bench. BENCH_PEERS=none takes 25 minutes at most; BENCH_PEERS=juicefs
# adds JuiceFS. BENCH=smoke is the same in a minute, for its own sake; BENCH_ROWS, BENCH_TARGETS,
# BENCH_REGIMES choose; docs/performance.md has all of it.
bench: tools
	cargo build --profile dist -p weir -p weir-bench
	cargo build --profile dist -p weir-fuse --example floor
	@scripts/install-tools.sh bench
	@[ "$(BENCH)" = smoke ] || [ "$(BENCH_PEERS)" = none ] || scripts/install-peers.sh $(BENCH_PEERS)
	WEIR=$(CARGO_TARGET_DIR)/dist/weir python3 -m perf

bench-smoke:
	$(MAKE) bench BENCH=smoke

# Weir by NFS beside NFS-Ganesha, by the kernel's client, in the emulated machine.
bench-nfs-guest: test-tools
	cargo build --profile dist -p weir
	@scripts/install-tools.sh packages bench
	WEIR=$(CARGO_TARGET_DIR)/dist/weir perf/nfs-guest.sh

bench-peers:
	scripts/install-peers.sh

# The pages as a book, with search; mdBook is built once, in minutes, and for this only.
docs:
	@scripts/install-tools.sh docs
	scripts/docs.sh target/book
	@echo "target/book/html/index.html"

install: optimised
	WEIR=$(CARGO_TARGET_DIR)/dist/weir PREFIX=$(PREFIX) SBIN=/sbin packaging/install.sh "$(DESTDIR)/"
	# Where Lustre's own lfs is installed, it stays the one that is found.
	[ -e $(DESTDIR)$(PREFIX)/bin/lfs ] || command -v lfs >/dev/null || \
	  ln -s weir $(DESTDIR)$(PREFIX)/bin/lfs

clean:
	rm -rf weir-demo $(DIST)
