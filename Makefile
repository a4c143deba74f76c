# Soloist. `make` alone prints what there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
LOWEST := .cache/lowest
INSTALL := -m pip install --quiet --disable-pip-version-check
TEST ?=
BASE ?=
TAG ?= localhost/soloist:dev
# Most tests wait for something, so there may be more of them at a time than cores: fewer where each has an API server and
# controllers of its own. Those of one file stay together.
SIDE_BY_SIDE := --dist loadfile
# What no library can change, the rules, their models and the loops above all, is not tried a second time; what kopf and the
# kubernetes client do is, against a real API server.
LOWEST_TESTS := tests/domain/test_schedule.py tests/domain/test_schedule_transitions.py tests/domain/test_signature.py tests/contracts tests/adapters tests/shells/test_cli.py
LOWEST_CLUSTER_TESTS := $(patsubst %,tests/adapters/kube/test_%.py,kopf_watch watch store api)

.PHONY: help demo demo-cluster demo-kind test test-long test-lowest adoption evidence check format docs chart image e2e postgres pgbouncer receiver bench-ticks bench-queue bench-standalone clean

help: ## print these targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# The virtual environment, made again only when what it is made of changes.
$(READY): pyproject.toml .ci/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed: install the system package python3 (of Debian 12, Ubuntu 24.04 or newer), or name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	  echo "$(PYTHON) -m venv does not work: install the system package python3-venv (apt-get install python3-venv)." >&2; exit 1; }
	@echo "installing the locked dependencies into $(VENV) (about a minute, once)" >&2
	@{ $(BIN)/python $(INSTALL) -r .ci/requirements.txt && $(BIN)/python $(INSTALL) --no-deps -e .; } || { \
	  echo "pip could not install the dependencies: is a package index reachable (PIP_INDEX_URL, a proxy)?" >&2; exit 1; }
	@touch $@

demo: $(READY) ## the main job in under a minute, without a cluster: three replicas, two of them killed, every tick and row once
	@$(BIN)/python -m tests.demo.standalone

demo-cluster: $(READY) ## the main job on a real API server: two controllers, the leader killed, every tick once
	@$(BIN)/python -m tests.demo

demo-kind: $(READY) ## the same on kind, for those who have Docker, kind and kubectl: it makes a cluster of its own, and deletes it
	@$(BIN)/python -m tests.demo --kind

test: $(READY) ## all tests but those of `make test-long` and `make adoption`; TEST="tests/domain -k jitter" picks some
ifneq ($(TEST),)
	@$(BIN)/python -m pytest $(TEST)
else
	@$(BIN)/python -m tests.cluster binaries >/dev/null
	@failed=0; $(BIN)/python -m pytest -m "cluster and not adoption and not long" -n 3 $(SIDE_BY_SIDE) --no-loadscope-reorder || failed=1; \
	$(BIN)/python -m pytest -m "not cluster and not adoption and not long" -n 3 $(SIDE_BY_SIDE) || failed=1; exit $$failed
endif

test-long: $(READY) ## what takes a minute or more each, as a database away for five, and scenes with three controllers; not in make test
	@$(BIN)/python -m pytest -m long

test-lowest: ## what the libraries we stand on decide, on the lowest versions of them that pyproject.toml allows
	@$(PYTHON) -m venv $(LOWEST)
	@$(LOWEST)/bin/python $(INSTALL) -r .ci/requirements-lowest.txt
	@$(LOWEST)/bin/python $(INSTALL) --no-deps -e .
	@$(LOWEST)/bin/python -m tests.cluster binaries >/dev/null
	@$(LOWEST)/bin/python -m pytest -n 4 $(SIDE_BY_SIDE) -m "not cluster" $(LOWEST_TESTS)
	@$(LOWEST)/bin/python -m pytest -n 2 $(SIDE_BY_SIDE) -m cluster $(LOWEST_CLUSTER_TESTS)

adoption: $(READY) ## four backends of manifests/examples adopt it, step by step, and are put through their faults
	@$(BIN)/python -m tests.cluster binaries >/dev/null
	@$(BIN)/python -m pytest -m adoption -n 2 $(SIDE_BY_SIDE) --timeout 1800 tests/adoption

evidence: $(READY) ## write docs/evidence anew out of runs of the same examples
	@EVIDENCE=docs/evidence $(MAKE) --no-print-directory adoption

check: $(READY) ## format, lint, types and import contracts, in under a minute
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: make format" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports pyproject.toml | tail -n 1

format: $(READY) ## format the code and mend what the linter can
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .

docs: $(READY) ## write the generated parts of docs/ again
	@$(BIN)/python -m tests.docs

image: $(READY) ## build the container image; BASE=… is what it is built on, where it is not the Dockerfile's
	@$(BIN)/python -m tests.e2e.image --base '$(BASE)' --tag '$(TAG)'

e2e: $(READY) ## compose.yaml on Docker, image and chart on real nodes: leaders killed, workers scaled, an upgrade under load; on kind, or as root with Debian packages
	@$(BIN)/python -m pytest -v -s --timeout 2400 $(or $(SCENES),$(sort $(wildcard tests/e2e/scene_*.py)))

chart: $(READY) ## write the chart's CRDs, manifests/install.yaml and the golden rendering again
	@$(BIN)/python -m tests.chart.rendering

postgres: $(READY) ## a PostgreSQL with durability on: prints its URL, stays until Ctrl-C
	@$(BIN)/python -m tests.postgres run

pgbouncer: $(READY) ## the same behind PgBouncer in transaction mode
	@$(BIN)/python -m tests.postgres run-pgbouncer

receiver: $(READY) ## an HTTP receiver: prints its URL, then every request with its key and fence, until Ctrl-C
	@$(BIN)/python -m tests.cluster receiver

bench-ticks: $(READY) ## figures for ticks and hand-overs beside the CronJob controller, on one API server
	@$(BIN)/python -m tests.bench.ticks

bench-queue: $(READY) ## figures for queues beside a bare batch claim, on one PostgreSQL server
	@$(BIN)/python -m tests.bench.queue

bench-standalone: $(READY) ## figures for soloist standalone: a burst, hand-overs, idle load, on one PostgreSQL server
	@$(BIN)/python -m tests.bench.standalone

clean: ## remove what the other targets made here (not the tools in ~/.cache/soloist)
	rm -rf $(VENV) .cache .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dist
