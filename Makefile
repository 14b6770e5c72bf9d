# Everything a fresh machine needs: Python 3.11 or newer. `make run` serves, `make test` tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test lint types check docs budgets turns bench fuzz contract soak fit clean

run: $(VENV)/.run
	$(BIN)/python -m app serve

test: $(VENV)/.dev
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

check: lint types test

# The documentation as a site, in site/.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

# What single pieces of work cost; `make bench` measures that too.
budgets: $(VENV)/.dev
	$(BIN)/python benchmarks/budgets.py

# How long a stream waits while its worker works on the worst texts of others, on a quiet machine.
turns: $(VENV)/.dev
	$(BIN)/pip install --quiet -r requirements-bench.txt
	$(BIN)/python benchmarks/turns.py

# Compares streaming through Sluice with nginx, on a quiet machine; PEERS="--peer litellm=FOLDER" adds others.
bench: $(VENV)/.dev budgets
	$(BIN)/pip install --quiet -r requirements-bench.txt
	$(BIN)/python benchmarks/bench.py $(PEERS)

# Feeds what reads foreign bytes with odd ones for eleven minutes; the log and the inputs worth keeping stay here.
fuzz: $(VENV)/.dev
	$(BIN)/pip install --quiet -r requirements-fuzz.txt
	$(BIN)/python benchmarks/fuzz.py --keep

# Holds gateways, open and with keys, against their own OpenAPI document for a quarter of an hour.
contract: $(VENV)/.dev
	$(BIN)/python benchmarks/contract.py --keep

# Five hundred mixed streams with faults for twenty minutes: nothing may grow, nothing be lost.
soak: $(VENV)/.dev
	$(BIN)/python benchmarks/soak.py --keep

# Fits AutoTune's model anew from the labelled messages; the result is the same to the byte.
fit: $(VENV)/.dev
	$(BIN)/pip install --quiet -r requirements-fit.txt
	$(BIN)/python scripts/fit_context.py

$(VENV)/.venv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	touch $@

$(VENV)/.run: $(VENV)/.venv requirements.txt
	$(BIN)/pip install --quiet -r requirements.txt
	touch $@

$(VENV)/.dev: $(VENV)/.venv requirements.txt requirements-dev.txt
	$(BIN)/pip install --quiet -r requirements-dev.txt
	touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) .clients build dist *.egg-info
