# make demo    set up, finetune MiniLM on the embedded MRPC sample, test with standard and effective attention
# make test    set up and run the whole test suite
# make bench   run every benchmark and write benchmarks/RESULTS.md; takes hours, on a quiet machine
# make lint    style, types; of the explorer's scripts too where there is Node.js
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: demo test bench lint lint-js clean

demo: $(VENV)/.demo
	$(BIN)/python train.py task=mrpc

test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --constraint constraints.txt accelerate
	$(BIN)/python benchmarks/run_all.py

lint: $(VENV)/.dev lint-js
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lint-js:
	tests/explorer/javascript/check.sh

clean:
	rm -rf $(VENV) tests/explorer/javascript/node_modules build .pytest_cache .mypy_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@
