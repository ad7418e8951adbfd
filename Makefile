# Everything here finds or makes a Python 3.12 environment in .venv, installs the locked versions, and goes on.
# A second run installs nothing.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed-from-lock
SERVERS := .venv-servers
PREFIX ?= store

.PHONY: help setup servers quickstart test check format test-slow lock browser bench-chain bench-data bench-model bench-model-long bench-engine bench-peers-setup bench-house bench-stores bench-faults bench-faults-short clean

help:
	@echo "make quickstart   run experiments/quickstart.py and say where its report is"
	@echo "make test         lint, format check, type check and all tests"
	@echo "make test-slow    the tests that take longer than the budget of make test"
	@echo "make bench-chain  the figures of the whole chain, one JSON line each"
	@echo "make bench-data   what the data stages find and cost, beside their peers; it downloads the corpora once"
	@echo "make bench-model  the model, its training and the ladder with a forecast; bench-model-long kills it 50 times, not 12"
	@echo "make bench-engine what the engine itself costs, the same way, and other engines beside it"
	@echo "make bench-house  what status, verify and gc cost on 10,000 steps and 100,000 files"
	@echo "make bench-stores what plans and runs cost on object stores"
	@echo "make bench-faults kills at every moment, on every store and on Ray; an hour. bench-faults-short: two minutes"
	@echo "make servers      install the object store servers that tests run against"
	@echo "make format       format and fix what can be fixed"
	@echo "make lock         resolve requirements.lock again from pyproject.toml"

setup: $(STAMP)

# Tried in turn: $PYTHON, python3.12 (also where pyenv only offers it by version), uv's interpreter, python3.
$(VENV)/bin/python:
	@python=""; \
	for each in "$${PYTHON:-}" python3.12 python3 $$(command -v uv >/dev/null && uv python find 3.12 2>/dev/null || true); do \
	  [ -n "$$each" ] || continue; \
	  if PYENV_VERSION=3.12 "$$each" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] < (3, 12))' >/dev/null 2>&1; then python="$$each"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "error: no Python 3.12 or newer with venv was found. Install it (python3.12 and python3.12-venv), or name one: make PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	echo "making $(VENV) with $$python"; \
	PYENV_VERSION=3.12 "$$python" -m venv $(VENV)

$(STAMP): requirements.lock pyproject.toml | $(VENV)/bin/python
	@$(BIN)/python -m pip install -q --disable-pip-version-check "$$(grep '^uv==' requirements.lock)" \
	  || { echo "error: pip cannot install from the package index; check the network or pip's configuration" >&2; exit 1; }
	@$(BIN)/uv pip install -q --compile-bytecode --no-deps --python $(BIN)/python -r requirements.lock \
	  || { echo "uv could not install the lock (it does not read pip.conf; UV_DEFAULT_INDEX names a mirror); trying pip, which is slower" >&2; \
	       $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -r requirements.lock; } \
	  || { echo "error: the locked versions in requirements.lock could not be installed (see above)" >&2; exit 1; }
	@$(BIN)/uv pip install -q --no-deps --no-build-isolation --python $(BIN)/python -e . \
	  || { echo "error: this project itself could not be installed into $(VENV) (see above)" >&2; exit 1; }
	@touch $(STAMP)

quickstart: $(STAMP)
	@$(BIN)/marin-exec run experiments/quickstart.py --prefix $(PREFIX)

check: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyrefly check

# Page tests look at pages in a real browser. Debian's package is installed where that can be done without asking.
browser:
	@if ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing chromium for the page tests"; apt-get update -qq && apt-get install -y -qq chromium >/dev/null; \
	  else echo "note: no chromium on this machine; the page tests will be skipped (apt-get install chromium)" >&2; fi; \
	fi

# Servers of object stores on loopback for the tests, in an environment of their own: they pin other versions than the lock.
$(SERVERS)/installed-from-lock: requirements-servers.lock | $(STAMP)
	@$(BIN)/uv venv -q --allow-existing --python $(BIN)/python $(SERVERS)
	@$(BIN)/uv pip install -q --compile-bytecode --no-deps --python $(SERVERS)/bin/python -r requirements-servers.lock \
	  || { echo "error: the object store servers in requirements-servers.lock could not be installed (see above)" >&2; exit 1; }
	@touch $@

servers: $(SERVERS)/installed-from-lock

# Two halves side by side: one computes, the other mostly waits for processes. What the first printed follows at the end.
COMPUTING := tests/steps tests/chain tests/browser
test: check servers browser
	@mkdir -p build; $(BIN)/python -m pytest -p no:cacheprovider -m "not slow" $(COMPUTING) > build/tests-of-steps.txt 2>&1 & computing=$$!; \
	waiting=0; $(BIN)/python -m pytest -m "not slow" $(addprefix --ignore=,$(COMPUTING)) || waiting=$$?; \
	wait $$computing || computing=failed; cat build/tests-of-steps.txt; \
	[ $$waiting = 0 ] && [ $$computing != failed ]

test-slow: $(STAMP) servers browser
	@$(BIN)/python -m pytest -m slow

bench-chain: $(STAMP)
	@$(BIN)/python benchmarks/chain.py

bench-data: $(STAMP)
	@$(BIN)/python -m benchmarks.data

bench-model: $(STAMP)
	@$(BIN)/python -m benchmarks.model

bench-model-long: $(STAMP)
	@$(BIN)/python -m benchmarks.model --long

bench-peers-setup: $(STAMP)
	@$(BIN)/python -m benchmarks.peers.setup

# Each part is run whatever became of the others; one that misses a bar makes the whole fail.
bench-engine: bench-peers-setup
	@failed=0; \
	for part in engine engine_on_ray scale peers.compare; do $(BIN)/python -m benchmarks.$$part || failed=1; done; \
	exit $$failed

bench-house: $(STAMP)
	@$(BIN)/python benchmarks/house.py

bench-stores: $(STAMP) servers
	@$(BIN)/python benchmarks/stores.py

bench-faults: $(STAMP) servers
	@$(BIN)/python benchmarks/faults.py

bench-faults-short: $(STAMP) servers
	@$(BIN)/python benchmarks/faults.py --short

format: $(STAMP)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: $(STAMP)
	@$(BIN)/uv pip compile pyproject.toml --group dev --python $(BIN)/python --no-emit-index-url --no-header -q -o requirements.lock
	@$(BIN)/uv pip compile requirements-servers.in --python $(BIN)/python --no-emit-index-url --no-header -q -o requirements-servers.lock

clean:
	rm -rf $(VENV) $(SERVERS)
