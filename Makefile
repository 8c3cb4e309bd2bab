# `make install` makes the environment, `make test` checks everything; `make help` lists the rest.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq
PYTHON ?=
ARGS ?=

export PYTHON
# pyright would otherwise ask the network whether there is a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Processes begin in half the time where Python keeps what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install test suite test-slow test-lowest test-newest test-package bench peers experiments demo docs
.PHONY: lint style types format clean FORCE

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

install: $(STAMP) ## make .venv with the pinned versions and pathfold itself, editable

# The stamp holds the directory it was installed for: a checkout that was copied or moved is installed again.
ifneq ($(shell test -x $(BIN)/python && cat $(STAMP) 2>/dev/null),$(CURDIR))
$(STAMP): FORCE
endif

$(STAMP): pyproject.toml constraints.txt
	@if ! $(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; then \
		python=$$(sh scripts/find_python.sh) || exit 1; \
		echo "Making $(VENV) with $$python"; \
		"$$python" -m venv --clear $(VENV) || exit 1; \
	fi
	@echo "Installing pathfold and the versions of constraints.txt into $(VENV)"
	@$(PIP) install --constraint constraints.txt pip hatchling editables
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[plots,files,dev]'
	@$(BIN)/python -m pathfold.cli compile
	@printf '%s\n' '$(CURDIR)' > $@

test: style ## lint, types and the tests (not the slow ones), on all cores; ARGS goes to pytest
	@$(MAKE) --no-print-directory --jobs 2 types suite

suite: install
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS)

test-slow: install ## the slow tests; ARGS goes to pytest
	$(BIN)/python -m pytest -m slow $(ARGS)

# The ends of the range of versions that pyproject.toml claims, each in an environment of its own, which also keeps what
# is compiled there.
test-lowest: ENVIRONMENT := .venv-lowest
test-lowest: VERSIONS := --constraint constraints-lowest.txt
test-newest: ENVIRONMENT := .venv-newest
test-newest: VERSIONS := --upgrade --upgrade-strategy eager
test-lowest: ## tests of program, distributions, data, model and engine with the lowest versions that pyproject.toml allows; ARGS goes to pytest
test-newest: ## the same with the newest versions there are
test-lowest test-newest:
	@python=$$(sh scripts/find_python.sh) && "$$python" -m venv $(ENVIRONMENT)
	@$(ENVIRONMENT)/bin/python -m pip --disable-pip-version-check --no-input -qq install $(VERSIONS) \
		arviz-stats hypothesis pytest pytest-xdist --editable .
	NUMBA_CACHE_DIR=$(CURDIR)/$(ENVIRONMENT)/numba PATHFOLD_CACHE=$(CURDIR)/$(ENVIRONMENT)/models \
		$(ENVIRONMENT)/bin/python -m pytest --numprocesses auto --dist loadfile tests/program tests/distributions tests/data tests/model tests/engine $(ARGS)

test-package: install ## build wheel and sdist, install each into a clean environment and try it; ARGS goes to pytest
	sh scripts/test_package.sh $(ARGS)

bench: install ## cost of a step, as a table; ARGS=--json adds a machine-readable line
	$(BIN)/python benchmarks/step_cost.py $(ARGS)

# The other samplers ask for versions of their own, and some for packages that nothing here needs.
PEERS := .venv-peers
$(PEERS)/.installed: pyproject.toml benchmarks/peers/requirements.txt
	@python=$$(sh scripts/find_python.sh) && "$$python" -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check --no-input -qq install --no-deps --requirement benchmarks/peers/requirements.txt
	@$(PEERS)/bin/python -m pip --disable-pip-version-check --no-input -qq install --no-deps --no-build-isolation --editable .
	@$(PEERS)/bin/python -m pathfold.cli compile
	@touch $@

peers: $(PEERS)/.installed ## pathfold beside other samplers (hours; goes on where it was stopped); ARGS=--help says more
	$(PEERS)/bin/python -m benchmarks.peers $(ARGS)

experiments: install ## the paper's experiments (hours; goes on where it was stopped); ARGS=--quick for tiny sizes
	$(BIN)/python -m experiments $(ARGS)

demo: install ## simulate, calibrate, print a table, draw pictures
	$(BIN)/python -m pathfold.cli demo $(ARGS)

docs: $(DOCS_STAMP) ## run the tutorials and build the site into docs/_build/html, warnings being errors
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "docs/_build/html/index.html"

$(DOCS_STAMP): $(STAMP)
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[docs]'
	@touch $@

lint: style types ## ruff and pyright

style: install
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check

types: install
	$(BIN)/python -m pyright

format: install ## let ruff format, and mend what it can
	$(BIN)/python -m ruff check --fix
	$(BIN)/python -m ruff format

clean: ## remove the environment and what tools left behind
	rm -rf $(VENV) .venv-lowest .venv-newest $(PEERS) build dist docs/_build .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
