# `make` alone says what there is. Everything runs from a fresh clone: `setup` comes first by itself.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PY := .venv/bin/python
# How many processes the tests run in, one more than processors, and what else pytest is told: make test JOBS=1 TEST_ARGS='-k journal -x'
JOBS ?= $(shell expr $$(nproc) + 1)
TEST_ARGS ?=
# What the benchmark is told: make bench BENCH_ARGS='--sizes 10,100'
BENCH_ARGS ?=
# What a build of Go modules is told: make kubernetes TOOLCHAIN_ARGS=--where-possible
TOOLCHAIN_ARGS ?=
# What the demo is told: make demo DEMO_ARGS='--stack physics'
DEMO_ARGS ?=
# Machines need root; who is not root is asked for a password where there is a terminal, and nowhere else.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo $(shell test -t 0 || echo --non-interactive) --preserve-env=TIDEPOOL_DATA,TIDEPOOL_ENGINE,TIDEPOOL_TOOLCHAIN)

.PHONY: help
help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install system packages that are missing, and the pinned packages into .venv
	@scripts/setup

.PHONY: setup-tests
setup-tests:
	@scripts/setup --tests

.PHONY: demo
demo: ## a real Slurm cluster on this machine that breathes: jobs in waves, nodes that come and go
	@scripts/setup --image debian-12
	@$(AS_ROOT) $(PY) -m demo $(DEMO_ARGS)

.PHONY: demo-run
demo-run: ## a cluster for one workload: from nothing to results, record and chart, and nothing again
	@scripts/setup --image debian-12
	@$(AS_ROOT) $(PY) -m demo.run $(DEMO_ARGS)

.PHONY: kubernetes
kubernetes: setup ## build a Kubernetes for this machine from Go modules: 6 minutes the first time, then at once
	@$(PY) -m tidepool.toolchain build kubernetes $(TOOLCHAIN_ARGS)

.PHONY: volcano
volcano: setup ## build the scheduler Volcano from Go modules, for the laboratory
	@$(PY) -m tidepool.toolchain build volcano $(TOOLCHAIN_ARGS)

.PHONY: kueue
kueue: setup ## build the queueing of Kueue from Go modules, for the laboratory
	@$(PY) -m tidepool.toolchain build kueue $(TOOLCHAIN_ARGS)

.PHONY: kwok
kwok: setup ## build kwok, which plays nodes of a Kubernetes, from Go modules, for the laboratory
	@$(PY) -m tidepool.toolchain build kwok $(TOOLCHAIN_ARGS)

.PHONY: pulumi
pulumi: setup ## build the Pulumi CLI from Go modules: 6 minutes the first time, then at once
	@$(PY) -m tidepool.toolchain build pulumi $(TOOLCHAIN_ARGS)
	@if built=$$($(PY) -m tidepool.toolchain folder pulumi 2>/dev/null); then \
		$(PY) -m tidepool.engine.language_host --install "$$built"; fi

.PHONY: nomad
nomad: setup ## build Nomad from Go modules, for the tests: 6 minutes the first time, then at once
	@$(PY) -m tidepool.toolchain build nomad $(TOOLCHAIN_ARGS)

.PHONY: objectstore
objectstore: setup ## build an S3 server from Go modules, for the tests: 4 minutes the first time, then at once
	@$(PY) -m tidepool.toolchain build objectstore $(TOOLCHAIN_ARGS)

.PHONY: toolchains
toolchains: kubernetes volcano kueue kwok pulumi nomad objectstore ## build all of these

.PHONY: demo-converged
demo-converged: setup kubernetes ## machines that move between Slurm and Kubernetes: jobs and pods come in turns
	@$(AS_ROOT) $(PY) -m demo.converged $(DEMO_ARGS)

# The laboratory's campaign goes on where it was: make lab CAMPAIGN=again measures once more.
CAMPAIGN ?= lab
.PHONY: lab
lab: setup-tests kubernetes volcano ## schedulers side by side on the same machines: a small campaign of four, and its report
	@$(AS_ROOT) $(PY) -m tidepool.cli --stack lab lab run $(CAMPAIGN)
	@$(AS_ROOT) $(PY) -m tidepool.cli --stack lab lab report $(CAMPAIGN)
	@$(AS_ROOT) $(PY) -m tidepool.cli --stack lab down --yes

# What Python compiles is kept, tests as well: compiling them anew takes longer than most of what is run here. What programs print
# is buffered as on a person's machine.
unexport PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED
# Tests that share what is slow to make run in one process (tests/schedule.py).
PYTEST = $(PY) -m pytest -n $(JOBS) --no-loadscope-reorder

.PHONY: test
test: setup-tests ## set up, check the style, run the tests that are quick: 10 minutes at most
# Beside the type checker, which works on one processor, the tests are compiled on the other.
	@$(MAKE) --jobs=2 --output-sync=target lint compile-tests
	@$(PYTEST) -m "not slow" $(TEST_ARGS)

# By halves, so that the processor which the type checker leaves soon has one of them.
.PHONY: compile-tests compile-some-tests compile-other-tests
compile-tests: compile-some-tests compile-other-tests
SOME_TESTS := $(wildcard tests/[a-h]*/) tests/scaling/
compile-some-tests: TESTS := $(SOME_TESTS)
compile-other-tests: TESTS := tests $(addprefix --ignore=,$(SOME_TESTS))
compile-some-tests compile-other-tests:
	@$(PY) -m pytest --collect-only --quiet $(TESTS) >.venv/$@.log || { tail -n 40 .venv/$@.log; exit 1; }

.PHONY: test-slow
test-slow: setup-tests
	@$(PYTEST) -m slow --durations=20 --durations-min=30 $(TEST_ARGS)

.PHONY: test-all
test-all: test toolchains test-slow ## those, and the slow ones: whole clusters and their faults, images, boots in software

.PHONY: agreed
agreed: setup-tests pulumi ## have the engine and the Pulumi CLI play the scenarios that were changed, and keep what both came to
	@TIDEPOOL_TESTS_AGREED=1 $(PYTEST) -m slow tests/engine/test_beside_the_cli.py $(TEST_ARGS)

.PHONY: docs
docs: .venv/docs/.made ## write the pages and the reference of the public names into site/; broken links fail
	@NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --quiet --strict

.venv/docs/.made: docs/requirements.txt | setup
	@$(PY) -m venv --clear .venv/docs
	@.venv/docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

.PHONY: lint
lint: setup-tests ## ruff, mypy and the import contracts
	@$(PY) -m ruff check --quiet
	@$(PY) -m ruff format --check --quiet
	@scripts/check-types
	@.venv/bin/lint-imports --no-logo >.venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }

.PHONY: format
format: setup-tests ## mend what ruff can mend
	@$(PY) -m ruff check --fix-only --quiet
	@$(PY) -m ruff format --quiet

.PHONY: bench
bench: setup-tests ## measure the engine, beside the Pulumi CLI where that is built or on PATH
	@$(PY) bench/engine.py $(BENCH_ARGS)

.PHONY: lock
lock: setup-tests ## pin the dependencies of pyproject.toml anew
	@scripts/lock

.PHONY: clean
clean: ## remove all that was made here
	@rm -rf .venv *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
