# Soloist. `make` alone prints what there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
TEST ?=

.PHONY: help demo-cluster test test-lowest check format docs bench-ticks clean

help: ## print these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# The virtual environment, made again only when what it is made of changes.
$(READY): pyproject.toml .ci/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed: install the system package python3 (Debian 12, Ubuntu 24.04 or newer), or set PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { \
	  echo "python3 -m venv does not work: install the system package python3-venv." >&2; exit 1; }
	@echo "installing the locked dependencies into $(VENV) (about a minute, once)" >&2
	@$(BIN)/pip install --quiet --disable-pip-version-check -r .ci/requirements.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

demo-cluster: $(READY) ## the main job on a real API server: two controllers, the leader killed, every tick once
	@$(BIN)/python -m tests.demo

test: $(READY) ## all tests; TEST="tests/domain -k jitter" picks some
	@$(BIN)/python -m pytest $(TEST)

test-lowest: ## the tests that need no cluster, on the lowest versions that pyproject.toml allows
	@$(PYTHON) -m venv .cache/lowest
	@.cache/lowest/bin/pip install --quiet --disable-pip-version-check -r .ci/requirements-lowest.txt
	@.cache/lowest/bin/pip install --quiet --disable-pip-version-check --no-deps -e .
	@.cache/lowest/bin/python -m pytest -m "not cluster" tests/domain tests/loops tests/contracts tests/adapters

check: $(READY) ## format, lint, types and import contracts, in under a minute
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: make format" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --config pyproject.toml | tail -n 3

format: $(READY) ## format the code and mend what the linter can
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .

docs: $(READY) ## write the generated parts of docs/ again
	@$(BIN)/python -m tests.docs

bench-ticks: $(READY) ## figures for ticks and hand-overs beside the CronJob controller, on one API server
	@$(BIN)/python -m tests.bench.ticks

clean: ## remove what the other targets made here (not the tools in ~/.cache/soloist)
	rm -rf $(VENV) .cache .hypothesis .pytest_cache .mypy_cache .ruff_cache dist
