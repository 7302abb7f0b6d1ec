# The two commands of the README are `make demo` and `make test`. They need git, make and Python 3.11 or newer with
# pip, and nothing else: everything lives in .venv, in the versions the two lock files name.

PYTHON ?= python3
VENV := .venv
JOBS := 2
ARGS :=
BIN := $(VENV)/bin

# An odd setting of the caller's must not leak into the environment made here. Index settings are left alone.
export PIP_USER := 0
export PIP_REQUIRE_VIRTUALENV := 0
export PIP_NO_INPUT := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PIP_TARGET PIP_PREFIX PIP_NO_DEPS PIP_NO_BINARY PIP_REQUIRE_HASHES PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help demo test check unit test-distributed chaos format docs lock clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):[^#]*## ?/  make \1|/' | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

demo: $(VENV)/.installed  ## an unreliable worker and its foreman, scene by scene (no key, no network)
	@$(BIN)/capataz demo $(ARGS)

test: check unit  ## everything CI runs: the checks and the whole test suite

check: $(VENV)/.developed  ## lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

unit: $(VENV)/.developed  ## the test suite alone; ARGS="tests/guards -x" narrows it
	$(BIN)/pytest -n $(JOBS) $(ARGS)

test-distributed: $(VENV)/.developed  ## the tests that need PostgreSQL and Temporal; both are started by them
	scripts/distributed.sh $(BIN)/python $(ARGS)

chaos: $(VENV)/.developed  ## kill workers at 500 random instants and hold the logs against what is there (2-3 minutes)
	$(BIN)/python benchmarks/chaos.py $(ARGS)

format: $(VENV)/.developed  ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.developed  ## write source and help texts into the pages that embed them, and the API snapshot
	$(BIN)/python scripts/embed.py
	$(BIN)/python scripts/public_api.py

# ── the environment: each stamp is newer than what it was made from ──────────────────────────────────────────────

$(VENV)/.locked: requirements-run.lock requirements.lock scripts/bootstrap.py
	$(PYTHON) scripts/bootstrap.py $(VENV)
	$(BIN)/python -m pip install --quiet --quiet --requirement requirements-run.lock
	@touch $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	$(BIN)/python -m pip install --quiet --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.developed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --quiet --requirement requirements.lock
	@touch $@

UV_COMPILE = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --no-annotate --no-header

lock: $(VENV)/.installed  ## settle the versions in both lock files anew; ARGS=--upgrade takes newer ones
	$(BIN)/python -m pip install --quiet --quiet uv
	$(UV_COMPILE) --group dev $(ARGS) --output-file requirements.lock
	$(UV_COMPILE) --group build --constraint requirements.lock --output-file requirements-run.lock
	$(UV_COMPILE) --group distributed --constraint requirements.lock --output-file requirements-distributed.lock

clean:  ## remove the environment and every cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
