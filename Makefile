# Every target sets up what it needs in .venv and redoes nothing that is up to date.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
ALL_READY := .venv/all-ready

.PHONY: demo test lint bench bench-rounds docs clean

demo: $(READY)
	$(BIN)/fedsparse demo

test: lint
	$(BIN)/python -m pytest -q -n 3 --dist loadfile

lint: $(ALL_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(READY)
	$(BIN)/python -m benchmarks

# Compares with solvers that are no dependency of fedsparse; what does not finish takes 5 minutes.
bench-rounds: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python -m benchmarks rounds

# Ends in site/index.html, which opens without a server or a network.
docs: $(ALL_READY)
	$(BIN)/python docs/command_line.py
	$(BIN)/python docs/code_map.py
	$(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv

# Stands for an installed environment: renewed when the dependencies change.
$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(ALL_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs,flower]'
	touch $@
