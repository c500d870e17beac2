# acp-agent: commands for developers. `make help` lists them.
#
# Everything is installed into .venv from the hashed pins in .ci/. Two stamp files in .venv record what is installed,
# so a second run installs nothing until pyproject.toml or the pins change: .runtime (the agent's dependencies)
# and .dev (these and the development tools).

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
NPM := tests/npm/node_modules/.stamp
PEERS := benchmarks/npm/node_modules/.stamp

# The interpreter that creates .venv, by default the first one that is new enough. To change it later:
# `make clean test PYTHON=python3.13`.
OLDEST := 3, 11
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < ($(OLDEST)))' >/dev/null 2>&1 && echo $$python && break; done)

# The number of pytest processes: one more than there are cores, because tests often wait for an agent to start or end.
# Each process begins with whole files, so that the tests of a file share their fixtures, and takes over tests of other
# processes when it is done. ARGS are further arguments for pytest: `make test ARGS="-k compact"`.
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)
ARGS ?=
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# pip and uv install exact versions, checked by hash, without output. --use-pep517 makes older releases of pip build
# packages that have only a setup.py as newer releases do, instead of in the legacy way with a long warning.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps --use-pep517
UV_INSTALL := $(VENV)-pins/bin/uv pip install --quiet --python $(BIN)/python --no-deps --compile-bytecode
UV_VERSION := 0.13.9

# Allow bytecode even if the environment forbids it; otherwise each process would compile the tests and the agent again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-unit test-e2e test-clients soak live lint format coverage bench contract pins clean
.PHONY: dist dist-check release-check site

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(RUNTIME) ## install the agent and see it work, without a key or a network
	@$(BIN)/acp-agent demo $(ARGS)

test: $(DEV) $(NPM) ## install everything and run the whole test suite
	$(PYTEST) $(ARGS)

test-unit: $(DEV) ## run the unit tests, without processes and with few examples of each property
	$(PYTEST) -m unit --hypothesis-profile=quick $(ARGS)

test-e2e: $(DEV) ## run the tests of what a user does, mostly in memory, at most 150 over a process
	$(PYTEST) -m "not unit and not clients" $(ARGS)

test-clients: $(DEV) $(NPM) ## run the tests with npm's clients, SDKs and a browser
	$(PYTEST) -m clients $(ARGS)

# The properties are tried with 1,000 examples instead of 25, in all processes. Then the long tests run one after
# another, because some measure. `make soak ARGS="--minutes 3"` shortens the hour of turns.
soak: $(DEV) ## run the long tests: many examples, kills at every write, an hour of turns; not part of CI
	$(PYTEST) -m hypothesis --hypothesis-profile=thorough --timeout 14400
	$(BIN)/python -m pytest -m soak --timeout 14400 --capture no tests/soak $(ARGS)

# This costs a few cents. `make live ARGS="--model ollama/qwen3:8b"` asks only this model.
live: $(DEV) ## test the real providers whose key is in the environment; not part of CI
	$(BIN)/python -m pytest -m live --timeout 600 tests/live $(ARGS)

lint: $(DEV) ## check style, types, import contracts and generated code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	$(BIN)/python .ci/generate_protocol.py --check
	$(BIN)/python .ci/generate_reference.py --check

format: $(DEV) ## format the source
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

coverage: $(DEV) $(NPM) ## run the test suite with branch coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

bench: $(DEV) $(if $(findstring --alone,$(ARGS)),,$(PEERS)) ## measure this agent and others from outside, over the wire
	@$(BIN)/python -m benchmarks $(ARGS)

# A commit gives the same bytes on every machine.
dist: $(DEV) ## build the sdist and the wheel, with checksums, in dist/
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1577836800) \
		$(BIN)/python -m hatchling build --directory dist >/dev/null
	@cd dist && sha256sum *.tar.gz *.whl >SHA256SUMS && cat SHA256SUMS

dist-check: dist $(VENV)-pins/bin/uv ## install the wheel and try it, on the oldest and the newest Python
	@$(BIN)/python .ci/try_wheel.py $(VENV)-pins/bin/uv

release-check: dist-check ## check what is missing before a release
	@$(BIN)/python .ci/release_check.py

site: $(VENV)-site/.stamp ## build the documentation as a site in build/site/html; fails on a broken link
	@$(VENV)-site/bin/python .ci/make_site.py build/site
	@cd build/site && ../../$(VENV)-site/bin/zensical build --strict

# A change to a file there needs a separate commit that cites the sentence that requires it.
contract: ## record the current files of tests/contract
	find tests/contract -type f ! -path '*/__pycache__/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >.ci/contract.sha256

pins: $(VENV)-pins/bin/uv ## resolve the newest versions that pyproject.toml allows into .ci/*.txt
	$(call compile,pyproject.toml --group build,.ci/requirements.txt)
	$(call compile,pyproject.toml --group dev --constraint .ci/requirements.txt,.ci/requirements-dev.txt)
	$(call compile,--group pyproject.toml:site,.ci/requirements-site.txt)

clean: ## remove everything that the other targets created
	rm -rf $(VENV) $(VENV)-pins $(VENV)-site tests/npm/node_modules benchmarks/npm/node_modules
	rm -rf build dist htmlcov .coverage .coverage.* .hypothesis
	rm -rf .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One file of pins for every platform and every supported Python, which does not depend on the machine.
define compile
$(VENV)-pins/bin/uv pip compile $(1) --output-file $(2) --quiet --upgrade \
	--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command 'make pins'
endef

# $(call venv,folder): create a virtual environment in the folder, unless it has a working one.
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

# With uv, which takes a fraction of pip's time.
$(DEV): pyproject.toml .ci/requirements.txt .ci/requirements-dev.txt | $(VENV)-pins/bin/uv
	$(call venv,$(VENV))
	@echo "installing the agent and its development tools into $(VENV)"
	@$(UV_INSTALL) --require-hashes --requirement .ci/requirements-dev.txt
	@$(UV_INSTALL) --no-build-isolation --editable .
	@touch $(RUNTIME) $@

$(VENV)-site/.stamp: .ci/requirements-site.txt $(VENV)-pins/bin/uv
	@$(VENV)-pins/bin/uv venv --quiet --clear --python $(PYTHON) $(VENV)-site
	@$(VENV)-pins/bin/uv pip install --quiet --python $(VENV)-site/bin/python --require-hashes --requirement .ci/requirements-site.txt
	@touch $@

# The tests that need these clients are skipped if npm is missing; under CI they fail.
$(NPM): tests/npm/package.json tests/npm/package-lock.json
	@if command -v npm >/dev/null 2>&1; then \
		echo "installing the npm test clients into tests/npm/node_modules" && \
		npm ci --prefix tests/npm --ignore-scripts --no-audit --no-fund --loglevel error >/dev/null && touch $@; \
	else echo "npm is not installed: the tests that need its clients are skipped"; fi

# These take 1.2 GB. If they cannot be installed, only this agent is measured.
$(PEERS): benchmarks/npm/package.json benchmarks/npm/package-lock.json
	@if ! command -v npm >/dev/null 2>&1; then echo "npm is not installed: no other agents are measured"; \
	elif echo "installing other agents into benchmarks/npm/node_modules" && \
		npm ci --prefix benchmarks/npm --ignore-scripts --no-audit --no-fund --loglevel error >/dev/null; then touch $@; \
	else echo "npm could not install other agents: they are not measured"; fi

$(VENV)-pins/bin/uv: Makefile
	$(call venv,$(VENV)-pins)
	@$(VENV)-pins/bin/python -m pip install --quiet --disable-pip-version-check --no-input uv==$(UV_VERSION)
	@touch $@
