# For people: `make` alone lists what there is. Everything can also be run by hand; the recipes are short.

CARGO   ?= cargo
PERL    ?= perl
PREFIX  ?= /usr/local
DESTDIR ?=
# Address of `make run`, and more options for it: make run ARGS='--workers 8'
LISTEN  ?= 127.0.0.1:5000
ARGS    ?=
PROVE   ?= prove
# Files of t/ at a time: most of them wait most of the time.
JOBS    ?= 3
# Tests of a crate at a time: those that take long wait.
RUST_TEST_THREADS ?= $(shell expr 3 '*' $$(nproc))
PYTHON  ?= python3
TESTS   ?= t/
# --no-run: the tests of crates are built, to be run later.
CARGO_ONLY ?=
FUZZ_SECONDS ?= 30
TARGET  := $(or $(CARGO_TARGET_DIR),target)
export CARGO

.DEFAULT_GOAL := help
# The parts of `make test` build the same things, and measure.
.NOTPARALLEL:
.PHONY: help deps deps-run build run test test-crates test-server test-rust test-loom test-perl test-bench lint lint-rust lint-perl fmt header bench bench-smoke bench-deps fuzz man install clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "First: make run, then curl http://$(LISTEN)/"

deps: ## install what is missing for all of this (apt on Debian; elsewhere says what to install)
	@PERL=$(PERL) tools/deps

# What `make run` needs is much less.
deps-run:
	@PERL=$(PERL) tools/deps run

# One at a time: two would write the same files, as `make run` and `make test` beside each other do. What is locked is this file, which
# leaves nothing behind; where there is no flock, nobody waits.
build: ## bin/howdah and its Perl modules in blib/
	@exec 9<$(firstword $(MAKEFILE_LIST)); \
	if command -v flock >/dev/null && ! flock -n 9; then \
		echo 'make: waits until another build in this directory has ended' >&2; flock 9; \
	fi; \
	$(PERL) Build.PL --quiet 9<&- && ./Build --quiet 9<&-

run: deps-run build ## serve examples/hello.psgi on 127.0.0.1:5000
	bin/howdah --listen $(LISTEN) $(ARGS) examples/hello.psgi

test: deps build test-crates test-server ## every test

# What cargo builds for itself, and what asks the server as it is built: .ci/run has the second while it builds the first.
test-crates: test-rust test-loom
test-server: build test-perl test-bench

test-rust:
	RUST_TEST_THREADS=$(RUST_TEST_THREADS) $(CARGO) test --workspace --locked --quiet $(CARGO_ONLY)

# The models replace the atomics, so they live in a target directory of their own.
test-loom:
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom $(CARGO) test --profile loom --locked --quiet -p howdah-wire --test loom $(CARGO_ONLY)

# For some of the tests only: make test-perl TESTS=t/00-unit
test-perl:
	$(PROVE) --blib --jobs $(JOBS) --recurse $(TESTS)

# The benchmark's harness: its accounting, statistics and parsers. It starts no server but its own.
test-bench:
	$(PYTHON) -B -m unittest discover -s bench/tests -t bench

lint: deps lint-rust lint-perl ## rustfmt, clippy, licences, imports, C warnings, perltidy, perlcritic, stale header

lint-rust:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked --quiet -- -D warnings
	$(CARGO) clippy --workspace --no-default-features --locked --quiet -- -D warnings
	tools/lint-licences
	tools/lint-rooms
	$(CARGO) test --workspace --locked --quiet --test header
	$(CC) -fsyntax-only -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Werror $(shell $(PERL) -MExtUtils::Embed -e ccopts) -Ixs xs/*.c xs-fork/*.c

lint-perl:
	tools/lint-perl

fmt: ## rewrite Rust and Perl files in the house's format
	$(CARGO) fmt --all
	tools/lint-perl --fix

header: ## write xs/wire.h anew from crates/wire
	HOWDAH_WRITE_HEADER=1 $(CARGO) test --workspace --locked --quiet --test header

bench: build ## Howdah beside other servers, into docs/benchmarks.md; QUICK=1 takes 5 minutes, not 25
	$(CARGO) build --release --locked --quiet -p howdah-front -p howdah-supervisor --examples
	$(PYTHON) bench/run $(if $(QUICK),--quick) $(if $(BUILT),--built $(BUILT))

bench-smoke: build ## whether the benchmark works: two short rounds, no figure of worth
	$(PYTHON) bench/run --smoke --out $(TARGET)/bench-smoke

bench-deps: ## install the servers and clients that bench/ uses
	@tools/deps bench

fuzz: ## a short run of each fuzz target (FUZZ_SECONDS=30)
	@for target in fuzz/fuzz_targets/*.rs; do fuzz/smoke $(FUZZ_SECONDS) $$(basename $$target .rs) || exit; done

man: build ## man/howdah.1 and completions/ to look at
	mkdir -p man completions
	bin/howdah man >man/howdah.1
	for shell in bash zsh fish; do bin/howdah completions $$shell >completions/howdah.$$shell || exit 1; done

# By the environment, where no shell reads them: they may have spaces and quotes.
install: export PREFIX := $(PREFIX)
install: export DESTDIR := $(DESTDIR)
install: ## into PREFIX (/usr/local), below DESTDIR when given
	@[ -x bin/howdah ] && [ -d blib/arch ] || $(MAKE) build
	@tools/install

clean: ## remove everything that was built
	$(CARGO) clean --quiet
	if [ -e Build ]; then ./Build realclean >/dev/null; fi
	rm -rf bin/howdah man completions lib/Howdah/XS.c lib/Howdah/XS.xs
