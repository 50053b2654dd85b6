# One-word targets, shared by people and CI. Everything is installed into .venv, nothing outside it.
PYTHON ?= python3
TORCH := 2.13.0
OLDEST := $(shell sed -n 's/^torch==//p' requirements/oldest.txt)
LOCK := requirements/ci.txt
VENV := .venv
BIN := $(VENV)/bin
TEST_TOOLS := hypothesis onnxruntime packaging pytest pytest-xdist
# Some machines announce AMX without giving it; torch's bf16 products then die with an illegal instruction.
# One thread for each of the test processes: they share the cores.
TEST_ENV := ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 OMP_NUM_THREADS=1

.PHONY: study soak fuzz pages compare test test-full lint types unit docs dist audit lock test-oldest test-newest format install clean

compare: $(VENV)/.lab  ## install, run the quick comparison on the data that comes with the package
	$(BIN)/aon compare --preset quick

test: lint types unit  ## lint, types, doctests and tests; a test builds the documentation strictly

test-full: lint types  ## the same with every combination of map and layer
	AON_FULL=1 $(TEST_ENV) $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

# Tests start, kill and starve real processes. What fails beside the others is run once more alone, which tells a fault from a full machine.
unit: $(VENV)/.dev
	$(TEST_ENV) $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile \
	|| { echo "the tests that failed are run once more, alone"; $(TEST_ENV) $(BIN)/python -m pytest --last-failed --last-failed-no-failures none -n 0; }

pages: $(VENV)/.dev  ## every generated part of README.md and docs/, from the records in results/
	PYTHONPATH=. $(BIN)/python scripts/readme_results.py
	PYTHONPATH=. $(BIN)/python scripts/draw_spectrum.py
	PYTHONPATH=. $(BIN)/python scripts/draw_study.py
	PYTHONPATH=. $(BIN)/python scripts/draw_arrows.py
	PYTHONPATH=. $(BIN)/python scripts/measure_spectra.py write
	PYTHONPATH=. $(BIN)/python scripts/expansion_training.py
	PYTHONPATH=. $(BIN)/python scripts/measure_lag.py write
	PYTHONPATH=. $(BIN)/python scripts/jump_tables.py
	PYTHONPATH=. $(BIN)/python scripts/measure_renewed.py write
	PYTHONPATH=. $(BIN)/python scripts/write_reliability.py
	PYTHONPATH=. $(BIN)/python scripts/scale_tables.py
	PYTHONPATH=. $(BIN)/python scripts/compatibility.py table
	$(BIN)/aon bench table --write docs

study: $(VENV)/.dev  ## the study of results/study/PLAN.md (days; continues where it stopped), its reports, and the pages
	PYTHONPATH=. $(TEST_ENV) nice -n 10 $(BIN)/python scripts/study.py run
	$(MAKE) pages
	PYTHONPATH=. $(BIN)/python scripts/study.py report

docs: $(VENV)/.dev  ## the documentation in site/; a broken link or reference is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

dist: $(VENV)/.dev  ## build sdist and wheel, check them, try the wheel in an empty environment
	ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 $(BIN)/python scripts/check_dist.py $(TORCH)

audit: $(VENV)/.dev  ## installed versions: consistent, those of the lock, without known vulnerabilities
	$(BIN)/python scripts/audit.py $(AUDIT)

soak: $(VENV)/.dev  ## the long form of the tests of reliability (hours; continues where it stopped), then their page
	PYTHONPATH=. $(TEST_ENV) nice -n 10 $(BIN)/python scripts/soak.py
	PYTHONPATH=. $(BIN)/python scripts/write_reliability.py

fuzz: $(VENV)/.dev  ## every reader under atheris, which looks for inputs that reach new code
	$(BIN)/python -m pip install --quiet 'atheris>=3.0,<4'
	PYTHONPATH=. $(TEST_ENV) $(BIN)/python scripts/fuzz.py
	PYTHONPATH=. $(BIN)/python scripts/write_reliability.py

lock:  ## resolve .[dev] in an empty environment and write requirements/ci.txt
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet torch==$(TORCH)
	.venv-lock/bin/python -m pip install --quiet -e '.[dev]'
	.venv-lock/bin/python scripts/lock.py
	rm -rf .venv-lock

# The registry's builds of torch for Linux carry CUDA: about 5 GB for each of these two environments.
test-oldest: .venv-oldest/.ready  ## tests on the lowest versions that pyproject.toml allows
	$(TEST_ENV) .venv-oldest/bin/python scripts/compatibility.py run
	.venv-oldest/bin/python scripts/compatibility.py table

test-newest: .venv-newest/.ready  ## tests on the newest versions that the registry has
	$(TEST_ENV) .venv-newest/bin/python scripts/compatibility.py run
	.venv-newest/bin/python scripts/compatibility.py table

.venv-oldest/.ready: requirements/oldest.txt pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet torch==$(OLDEST)
	.venv-oldest/bin/python -m pip install --quiet -c requirements/oldest.txt -e '.[lab]' $(TEST_TOOLS)
	touch $@

.venv-newest/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager torch -e '.[lab]' $(TEST_TOOLS)
	touch $@

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: $(VENV)/.dev

# torch first and pinned: an unpinned torch, asked for by another package, would pull its CUDA build.
$(VENV)/.torch:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet torch==$(TORCH)
	touch $@

$(VENV)/.lab: $(VENV)/.torch pyproject.toml $(LOCK)
	$(BIN)/python -m pip install --quiet -c $(LOCK) -e '.[lab]'
	touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml $(LOCK)
	$(BIN)/python -m pip install --quiet -c $(LOCK) -e '.[dev]'
	touch $@ $(VENV)/.lab

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-lock .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist site
