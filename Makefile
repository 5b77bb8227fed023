# The front door. Every target builds .venv first when it is missing, and only then.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow check format bench clean

help:  ## Show the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

install: $(INSTALLED)  ## Build .venv (about two minutes)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 2; }
	@echo "Building .venv (once, about two minutes) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(INSTALLED)  ## Show what NonZero does, in a minute or two on a CPU
	@$(BIN)/nonzero demo

test: $(INSTALLED)  ## Run the tests (everything but the slow ones)
	@$(BIN)/pytest -m 'not slow'

test-slow: $(INSTALLED)  ## Run the slow tests: long learning runs and exact optima
	@$(BIN)/pytest -m slow -n 1 --timeout 3600

check: $(INSTALLED)  ## Lint, format, types, import order
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports
	@$(BIN)/basedpyright

format: $(INSTALLED)  ## Format the code and mend what the linter can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(INSTALLED)  ## Measure the speed of the environments and of the optimiser
	@$(BIN)/nonzero bench envs
	@$(BIN)/nonzero bench asks

clean:  ## Remove .venv and caches
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .import_linter_cache
