# Cellhouse: everything a checkout can do. `make help` lists it.
PYTHON ?=
VENV := .venv
PY := $(VENV)/bin/python
# Tests beside each other; PYTEST_ARGS adds or narrows: make test PYTEST_ARGS="tests/model -x"
# One more than there are processors: much of the time a test waits for what it has started.
WORKERS ?= $(shell expr $$(nproc) + 1)
PYTEST_ARGS ?=
BENCH_ARGS ?=
PROFILE_ARGS ?=
VERSIONS_ARGS ?=
PEERS_ARGS ?=
CHAOS_SEEDS ?= 0-99
PYTEST := $(PY) -m pytest

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-adapters setup-bench run test test-slow test-cases test-versions test-walls test-chaos test-peers test-adapters bench conformance profile load soak lint format lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make .venv with the service and the kernel environment (PYTHON=… takes another Python, 3.11 or later)
	@PYTHON="$(PYTHON)" scripts/setup

setup-dev: ## setup, and what tests and lint need
	@PYTHON="$(PYTHON)" scripts/setup --dev

run: setup ## setup, then the tour, a notebook: text, an exception, plots, a table, a progress bar, an update, a file
	@$(VENV)/bin/cellhouse run examples/tour.ipynb

test: setup-dev ## the tests, without the slow ones and the shared cases
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not slow and not cases" $(PYTEST_ARGS)

test-slow: setup-dev ## the slow tests, one after the other
	$(PYTEST) -m "slow" $(PYTEST_ARGS)

test-cases: setup-dev ## the shared cases: what a truthful runner must report
	$(PYTEST) -n $(WORKERS) -m cases $(PYTEST_ARGS)

test-versions: setup-dev ## the native kernel in every Python here, 3.9 to 3.14, with the oldest and the newest IPython
	@$(PY) -m tests.inside.versions $(VERSIONS_ARGS)

test-chaos: setup-dev ## everything is killed, in a hundred orders (CHAOS_SEEDS=17 replays one)
	CHAOS_SEEDS=$(CHAOS_SEEDS) $(PYTEST) -n $(WORKERS) tests/chaos $(PYTEST_ARGS)

test-walls: setup-dev ## attacks: each fails inside the walls, as root-launched and as a plain user, and succeeds without them
	$(PYTEST) -n $(WORKERS) --dist loadfile tests/attacks $(PYTEST_ARGS)

setup-adapters: ## setup-dev, and the frameworks of agents that runners are adapted to
	@PYTHON="$(PYTHON)" scripts/setup --adapters

test-adapters: setup-adapters ## runners inside the frameworks of agents, and examples/agents; no language model
	CELLHOUSE_ENV_PATH=$(CURDIR)/$(VENV)/share/cellhouse/environments \
	$(VENV)/share/cellhouse/adapters/bin/python -m pytest tests/adapters $(PYTEST_ARGS)

test-peers: setup-dev ## notebooks of nbclient, papermill, nbconvert and nbformat: run here and by nbclient, compared cell by cell; our ten analyses
	$(PY) -m tests.peers --cache .tmp/peers $(PEERS_ARGS)
	$(PYTEST) -m slow tests/peers $(PYTEST_ARGS)

setup-bench: ## setup-dev, and the server that the service is measured beside
	@PYTHON="$(PYTHON)" scripts/setup --bench

bench: setup-bench ## measurements: ratios against raw ipykernel and jupyter_server, in one interleaved run
	$(PY) -m bench $(BENCH_ARGS)

profile: setup-dev ## where the time of one execution goes, by stage, from door to door (PROFILE_ARGS="--seconds 60")
	$(PY) -m bench.profile $(PROFILE_ARGS)

conformance: ## the official MCP suite, the inspector, FastMCP's client and the SDK's against this service; a table (needs npm)
	@PYTHON="$(PYTHON)" scripts/setup --conformance
	$(PY) -m tests.conformance

load: setup-bench ## the service under load: 50 sessions, 1,000 subscribers, 50 runtimes at once; nothing may be left
	$(PY) -m bench.load $(BENCH_ARGS)

soak: setup-dev ## 10,000 executions and 200 runtimes, one after the other; nothing may grow (about half an hour)
	$(PY) -m bench.soak $(BENCH_ARGS)

lint: setup-dev ## ruff, mypy --strict, the floors
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

format: setup-dev ## let ruff put the code in order
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

lock: ## make the lock files anew (needs uv; LOCK_ARGS=--upgrade takes the newest releases)
	@scripts/lock $(LOCK_ARGS)

clean: ## remove everything that setup, tests and lint made
	rm -rf $(VENV) .tmp dist build bench-results .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .schemathesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
