# acp-agent: what a developer types. `make help` lists it.
#
# Everything is installed into .venv from the hashed pins in .ci/. Two stamp files in it remember what is
# installed, so that a second run installs nothing until pyproject.toml or the pins change:
# .runtime (what the agent needs) and .dev (that and the tools of the tests).

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
NPM := tests/npm/node_modules/.stamp
PEERS := benchmarks/npm/node_modules/.stamp

# The interpreter that .venv is made with, by default the first one that is new enough. To change it later:
# `make clean test PYTHON=python3.13`.
OLDEST := 3, 11
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < ($(OLDEST)))' >/dev/null 2>&1 && echo $$python && break; done)

# Processes of pytest. One more than there are cores: much of a test is waiting for an agent to start or to end. Each
# begins with whole files, so that what the tests of a file share is made once, and helps another when it has done its
# part. Further arguments for it: `make test ARGS="-k compact"`.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)
ARGS ?=
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# pip: exact versions, checked by hash, quietly. What has a setup.py only is built as newer releases of pip build it
# anyway; older ones would build it in a way of their own, and print a paragraph of advice about that.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps --use-pep517
UV_VERSION := 0.13.9

# Where the environment forbids it, each process would compile all of the tests and of the agent again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-e2e test-clients soak live lint format coverage bench contract pins clean
.PHONY: dist dist-check release-check site

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(RUNTIME) ## install the agent and see it work: no key, no network
	@$(BIN)/acp-agent demo $(ARGS)

test: $(DEV) $(NPM) ## install everything and run the whole test suite
	$(PYTEST) $(ARGS)

test-unit: $(DEV) ## the tests of the rooms that start no process, with few examples of each property
	$(PYTEST) -m unit --hypothesis-profile=quick $(ARGS)

test-e2e: $(DEV) ## what a user does: in memory, and at most 150 over a process
	$(PYTEST) -m "not unit and not clients" $(ARGS)

test-clients: $(DEV) $(NPM) ## those with npm's clients, SDKs and a browser
	$(PYTEST) -m clients $(ARGS)

# One test after the other: some measure. `make soak ARGS="--minutes 3"` shortens the one that takes an hour.
soak: $(DEV) ## kills at every write, a million messages, an hour of turns; not part of CI
	$(BIN)/python -m pytest -m soak --timeout 14400 --capture no tests/soak $(ARGS)

# A few cents. `make live ARGS="--model ollama/qwen3:8b"` asks this model alone.
live: $(DEV) ## real providers, those whose key is in the environment; not part of CI
	$(BIN)/python -m pytest -m live --timeout 600 tests/live $(ARGS)

lint: $(DEV) ## style, types, import contracts, generated code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	$(BIN)/python .ci/generate_protocol.py --check
	$(BIN)/python .ci/generate_reference.py --check

format: $(DEV) ## put the source into its format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

coverage: $(DEV) $(NPM) ## the test suite with branch coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

bench: $(DEV) $(if $(findstring --alone,$(ARGS)),,$(PEERS)) ## measure the agent from outside, over the wire, and others beside it
	@$(BIN)/python -m benchmarks $(ARGS)

# The same commit gives the same bytes on every machine.
dist: $(DEV) ## build the sdist and the wheel, with checksums, in dist/
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1577836800) \
		$(BIN)/python -m hatchling build --directory dist >/dev/null
	@cd dist && sha256sum *.tar.gz *.whl >SHA256SUMS && cat SHA256SUMS

dist-check: dist $(VENV)-pins/bin/uv ## install the wheel afresh, and try it, on the oldest and the newest Python
	@$(BIN)/python .ci/try_wheel.py $(VENV)-pins/bin/uv

release-check: dist-check ## say what is missing before a release
	@$(BIN)/python .ci/release_check.py

site: $(VENV)-site/.stamp ## the documentation as a site in build/site/html; fails where a link leads nowhere
	@$(VENV)-site/bin/python .ci/make_site.py build/site
	@cd build/site && ../../$(VENV)-site/bin/zensical build --strict

# Each changed file there needs a commit of its own that cites the sentence which demands it.
contract: ## note the files of tests/contract as they are now
	find tests/contract -type f ! -path '*/__pycache__/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >.ci/contract.sha256

pins: $(VENV)-pins/bin/uv ## resolve the newest versions that pyproject.toml allows into .ci/*.txt
	$(call compile,pyproject.toml --group build,.ci/requirements.txt)
	$(call compile,pyproject.toml --group dev --constraint .ci/requirements.txt,.ci/requirements-dev.txt)
	$(call compile,--group pyproject.toml:site,.ci/requirements-site.txt)

clean: ## remove what the other targets made
	rm -rf $(VENV) $(VENV)-pins $(VENV)-site tests/npm/node_modules benchmarks/npm/node_modules
	rm -rf build dist htmlcov .coverage .coverage.* .hypothesis
	rm -rf .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One file of pins, for every platform and every Python from the oldest, with nothing in it of the machine it was made on.
define compile
$(VENV)-pins/bin/uv pip compile $(1) --output-file $(2) --quiet --upgrade \
	--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command 'make pins'
endef

# $(call venv,folder): a virtual environment there, unless a working one is there.
define venv
@if test -z "$(PYTHON)"; then echo "acp-agent needs Python 3.11 or newer, and none is on the PATH: install one, or name it with 'make PYTHON=/path/to/python3'." >&2; exit 1; fi
@if ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < ($(OLDEST)))' 2>/dev/null; then \
	echo "acp-agent needs Python 3.11 or newer, and '$(PYTHON)' is not that: name another with 'make PYTHON=/path/to/python3'." >&2; exit 1; fi
@if ! $(1)/bin/python -c 'import pip' 2>/dev/null; then echo "making $(1) with $(PYTHON)"; "$(PYTHON)" -m venv --clear $(1); fi
endef

$(RUNTIME): pyproject.toml .ci/requirements.txt
	$(call venv,$(VENV))
	@echo "installing the agent into $(VENV)"
	@$(PIP_INSTALL) --require-hashes --requirement .ci/requirements.txt
	@$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $@

$(DEV): pyproject.toml .ci/requirements.txt .ci/requirements-dev.txt
	$(call venv,$(VENV))
	@echo "installing the agent and its development tools into $(VENV)"
	@$(PIP_INSTALL) --require-hashes --requirement .ci/requirements-dev.txt
	@$(PIP_INSTALL) --no-build-isolation --editable .
	@touch $(RUNTIME) $@

$(VENV)-site/.stamp: .ci/requirements-site.txt $(VENV)-pins/bin/uv
	@$(VENV)-pins/bin/uv venv --quiet --clear --python $(PYTHON) $(VENV)-site
	@$(VENV)-pins/bin/uv pip install --quiet --python $(VENV)-site/bin/python --require-hashes --requirement .ci/requirements-site.txt
	@touch $@

# The tests that need these clients skip where there is no npm; under CI they fail.
$(NPM): tests/npm/package.json tests/npm/package-lock.json
	@if command -v npm >/dev/null 2>&1; then \
		echo "installing the npm test clients into tests/npm/node_modules" && \
		npm ci --prefix tests/npm --ignore-scripts --no-audit --no-fund --loglevel error >/dev/null && touch $@; \
	else echo "npm is not installed: the tests that need its clients are skipped"; fi

# Of 1.2 GB. Where they are not to be had, the agent is measured alone.
$(PEERS): benchmarks/npm/package.json benchmarks/npm/package-lock.json
	@if ! command -v npm >/dev/null 2>&1; then echo "npm is not installed: no other agents are measured"; \
	elif echo "installing other agents into benchmarks/npm/node_modules" && \
		npm ci --prefix benchmarks/npm --ignore-scripts --no-audit --no-fund --loglevel error >/dev/null; then touch $@; \
	else echo "npm could not install other agents: they are not measured"; fi

$(VENV)-pins/bin/uv: Makefile
	$(call venv,$(VENV)-pins)
	@$(VENV)-pins/bin/python -m pip install --quiet --disable-pip-version-check --no-input uv==$(UV_VERSION)
	@touch $@
