# Plain `make` lists the targets. Each sets up .venv as needed, and again only when pyproject.toml changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export NPVI_DATA ?= $(wildcard $(abspath ../shared/data))

.DEFAULT_GOAL := help
.PHONY: help demo test test-browser lint types campaign bench bench-peers reproduce docs clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("npvi needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

$(VENV)/.ready-%: $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@

demo: $(READY) ## simulate a survey, fit it, print scores, write a picture and a report
	$(BIN)/npvi demo

test: lint types ## everything that must hold: lint, types and the test suite
	$(BIN)/python -m pytest -n 2 --dist loadscope -m "not browser"

test-browser: $(READY) ## reports in a real browser; chromium is installed where that is possible (root, apt-get)
	@$(BIN)/python tools/browser.py
	$(BIN)/python -m pytest tests/reporting -m browser

lint: $(READY) ## style and common mistakes (ruff), and what may import what (import-linter)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(READY) ## type check (mypy)
	$(BIN)/mypy

campaign: $(READY) ## search for surprises: bad input, damaged files, signals, random problems (SEED=, MINUTES=, PARTS=)
	$(BIN)/python -m campaign $(PARTS) --minutes $(or $(MINUTES),30) $(if $(SEED),--seed $(SEED))

bench: $(READY) ## measured figures, into benchmarks/RESULTS.md: speed, scores, calibration (NPVI_DATA names the data)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.report

bench-peers: $(VENV)/.ready-bench ## the same data through today's software, into benchmarks/RESULTS.md (LIMIT=seconds a run)
	$(BIN)/python -m benchmarks.beside.peers $(if $(LIMIT),--limit $(LIMIT))

reproduce: $(READY) ## the paper's tables and figures on real data, into results/: days; stop it and it goes on later
	$(BIN)/npvi reproduce all

docs: $(VENV)/.ready-docs ## the documentation site into site/, gallery included, and the tables of pages
	$(BIN)/python tools/tables.py
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs site

clean: ## remove .venv, caches and everything built
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache site dist results docs/api docs/gallery
	find src tests benchmarks campaign -name __pycache__ -type d -prune -exec rm -rf {} +
