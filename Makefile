# CuTe Course's commands. `make help` lists them; the README explains them.
#
#   PYTHON   the Python 3.11 to 3.13 to make the environment with (default: the first such python3* found)
#   VENV     the environment (default: .venv; a conda user may give VENV="$CONDA_PREFIX")
#   ARGS     further arguments: make test ARGS="-k layout", make record ARGS="01"
#   PORT     where `make serve` listens (default: 8000)
#   WORK     the folder of your own copies, for `make lab` (default: work, which git ignores)

.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV ?= .venv
PORT ?= 8000
WORK ?= work
ARGS ?=

SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c '$(SUPPORTED)' >/dev/null 2>&1 && echo $$p && break; done)

BIN := $(VENV)/bin
PY := $(BIN)/python
# Locked files install as they are: pip resolves nothing, builds nothing in an environment of its own, and
# leaves byte-compiling to the first import.
PIP := $(PY) -m pip --disable-pip-version-check install -qq --no-compile --no-deps
# As many workers as cores, at most 8. A notebook's cells, and a module's browser, stay in one worker.
# Containers often forbid bytecode files; then each of the tests' many processes compiles every module again.
PYTEST := PYTHONDONTWRITEBYTECODE= $(PY) -m pytest --nbval -n logical --maxprocesses 8 --dist loadfile

# An environment keeps the Python it was made with; asking for another one must not pass unnoticed.
ifneq ($(filter command environment,$(firstword $(origin PYTHON))),)
ifneq ($(wildcard $(PY)),)
ifeq ($(filter help clean,$(MAKECMDGOALS)),)
VERSION := import sys; print("%d.%d" % sys.version_info[:2])
ifneq ($(shell $(PYTHON) -c '$(VERSION)'),$(shell $(PY) -c '$(VERSION)'))
$(error $(VENV) was made with Python $(shell $(PY) -c '$(VERSION)'), not with $(PYTHON); \
make clean first, or give another VENV)
endif
endif
endif
endif

.PHONY: help book serve lab test test-all test-gpu bench-attention bench-blackwell bench-hopper lint check record exercises doctor lock lock-upgrade clean

help: ## List the commands
	@echo "make COMMAND, where COMMAND is one of:"
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

book: $(VENV)/.book.stamp ## Build the pages and say where they are
	@$(PY) -m tools.book $(ARGS)
	@echo "Or: make serve"

serve: book ## Build the pages and serve them on this machine
	@echo "The pages are at http://localhost:$(PORT) (Ctrl-C stops)"
	@$(PY) -m http.server --bind 127.0.0.1 --directory book/_build/html $(PORT)

lab: $(VENV)/.all.stamp ## Open your own copies of the chapters and exercises in JupyterLab
	@$(PY) -m tools.lab --folder "$(WORK)"
	@JUPYTER_CONFIG_PATH="$(CURDIR)/tools/jupyter$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
	$(BIN)/jupyter lab --ServerApp.root_dir="$(abspath $(WORK))" --LabApp.default_url=/lab/tree/chapters $(ARGS)

test: $(VENV)/.all.stamp ## Run all tests: library, emulator, kernels, notebooks, pages, browser, style, types
	@$(PYTEST) $(ARGS)

test-all: $(VENV)/.all.stamp ## Run the long tests as well, and compile everything anew (CI: once a week)
	@CUTECOURSE_TEST_ALL=1 CUTECOURSE_CACHE=off $(PYTEST) $(ARGS)

test-gpu: $(VENV)/.all.stamp ## Run the same tests and fail unless this machine has a GPU
	@CUTECOURSE_REQUIRE_GPU=1 $(PYTEST) $(ARGS)

bench-blackwell: $(VENV)/.all.stamp ## Measure the tcgen05 GEMMs, checked against NumPy, on a Blackwell GPU
	@$(PY) -m benchmarks.umma_throughput $(ARGS)

bench-attention: $(VENV)/.all.stamp ## Measure attention beside its rivals on a Hopper GPU (RIVALS=folder)
	@$(PY) -m benchmarks.attention $(ARGS)

bench-hopper: $(VENV)/.all.stamp ## Measure wgmma and the Hopper GEMMs beside their rivals on a Hopper GPU (RIVALS=folder)
	@$(PY) -m benchmarks.hopper_gemm $(ARGS)
	@$(PY) -m benchmarks.hopper_fp8
	@$(PY) -m benchmarks.wgmma_rate

lint: $(VENV)/.all.stamp ## Style, types and imports only (a few seconds)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(PY) -m tools.lock --check

check: $(VENV)/.all.stamp ## Say whether recordings, exercises, lock files and vendored files are as they should be
	$(PY) -m tools.record --check
	$(PY) -m tools.exercises --check
	$(PY) -m tools.emulator_coverage
	$(PY) -m tools.blackwell_pack --check
	$(PY) -m tools.third_party --check
	$(PY) -m tools.lock --check

record: $(VENV)/.all.stamp ## Run the chapters and the solutions here and keep their outputs (ARGS=01: one chapter)
	@$(PY) -m tools.record $(ARGS)

exercises: $(VENV)/.all.stamp ## Generate the learner's notebooks from the exercises' sources
	@$(PY) -m tools.exercises $(ARGS)

doctor: $(VENV)/.all.stamp ## Say what this machine has and which chapters run natively on it
	@$(BIN)/cutecourse doctor

lock: $(VENV)/.all.stamp ## Write the lock files anew from pyproject.toml, keeping versions where they still fit
	$(PY) -m tools.lock

lock-upgrade: $(VENV)/.all.stamp ## Write the lock files anew with the newest versions
	$(PY) -m tools.lock --upgrade

clean: ## Remove the environment and everything that was built
	rm -rf .venv book/_build build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find lib -name '*.egg-info' -type d -prune -exec rm -rf {} +

# --- the environment ----------------------------------------------------------------------------------

$(PY):
	@if [ -z "$(PYTHON)" ]; then \
		echo "CuTe Course needs Python 3.11, 3.12 or 3.13, and none was found (python3 is: $$(python3 --version 2>&1))." >&2; \
		echo "Install one, or say where it is: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; exit 1; fi
	@$(PYTHON) -c '$(SUPPORTED)' || { \
		echo "$(PYTHON) is $$($(PYTHON) --version 2>&1); CuTe Course needs Python 3.11, 3.12 or 3.13." >&2; \
		echo "Give one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "Making the environment $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { \
		echo "python -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; rm -rf $(VENV); exit 1; }

# The book needs a part of what the tests need, and gets it without waiting for the rest.
$(VENV)/.book.stamp: requirements/book.txt pyproject.toml | $(PY)
	@echo "Installing what the pages need (about half a minute)"
	@$(PIP) -r requirements/book.txt
	@$(PIP) --no-build-isolation --editable .
	@touch $@

$(VENV)/.all.stamp: requirements/all.txt $(VENV)/.book.stamp
	@echo "Installing everything else: the kernel compilers, JupyterLab, the test tools (about a minute)"
	@$(PIP) -r requirements/all.txt
	@touch $@
