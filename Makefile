# make demo    set up, finetune MiniLM on the embedded MRPC sample, test with standard and effective attention
# make test    set up and run the whole test suite
# make install set up all that the others need
# make loops   set up and compile the package's loops, so that nothing waits for them later
# make docs    build the documentation site into build/site; any warning is an error
# make notebooks  run the notebooks of examples/ and keep their output
# make bench   run every benchmark and write benchmarks/RESULTS.md; takes hours, on a quiet machine
# make findings DATA=folder  measure what docs/findings says and is missing, write its tables; takes hours, goes on where it stopped
# make league DATA=folder  measure the league of explanations again (docs/findings/league.md); hours, goes on where it stopped
# make audit   look the pinned versions up in the database of known vulnerabilities, where it can be reached
# make fuzz    10 000 generated cases: files, texts, tensors, checkpoints, overrides
# make faults  kill, stop and starve runs in every way we know, and print what came of it (about 15 minutes)
# make lint    style, types; of the explorer's scripts too where there is Node.js
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

.PHONY: demo install loops test docs notebooks audit bench findings league faults fuzz lint lint-js clean

demo: $(VENV)/.demo
	$(BIN)/python train.py task=mrpc

install: $(VENV)/.dev $(VENV)/.docs

loops: $(VENV)/.dev
	$(BIN)/python -m effective_attention.kernels

# The tests of a file go to one process, or both would make its fixtures; files go in order, short ones last.
test: $(VENV)/.dev loops
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

docs: $(VENV)/.docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --fresh-env --quiet --builder html docs build/site
	@echo "open build/site/index.html"

notebooks: $(VENV)/.docs
	OMP_NUM_THREADS=1 $(BIN)/python scripts/run_notebooks.py

bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --constraint constraints.txt accelerate
	$(BIN)/python benchmarks/run_all.py

findings: $(VENV)/.dev
	$(BIN)/python scripts/findings --data $(DATA)

# Training and evaluations that are finished in runs/findings are not run again: remove that folder to begin anew.
league: $(VENV)/.dev
	$(BIN)/python scripts/findings --data $(DATA) --again league

audit:
	$(PYTHON) scripts/audit.py constraints.txt

fuzz: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python scripts/fuzz.py

faults: $(VENV)/.dev
	$(BIN)/python scripts/faults

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

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	touch $@
