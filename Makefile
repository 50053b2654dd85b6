# One-word targets, shared by people and CI. Everything is installed into .venv, nothing outside it.
PYTHON ?= python3
TORCH := 2.13.0
VENV := .venv
BIN := $(VENV)/bin
# Some machines announce AMX without giving it; torch's bf16 products then die with an illegal instruction.
# One thread for each of the test processes: they share the cores.
TEST_ENV := ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 OMP_NUM_THREADS=1

.PHONY: compare test lint types unit format install clean

compare: $(VENV)/.lab  ## install, run the quick comparison on the data that comes with the package
	$(BIN)/aon compare --preset quick

test: lint types unit  ## lint, types, doctests and tests

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(TEST_ENV) $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: $(VENV)/.dev

# torch first and pinned: an unpinned torch, asked for by another package, would pull its CUDA build.
$(VENV)/.torch:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet torch==$(TORCH)
	touch $@

$(VENV)/.lab: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[lab]'
	touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@ $(VENV)/.lab

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
