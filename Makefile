# Everything a user or maintainer runs. `make demo` is all a newcomer needs.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test lint format bench ui clean

demo: $(STAMP)
	$(BIN)/cpmi run

ui: $(STAMP)
	$(BIN)/cpmi ui

test: $(STAMP)-dev
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

lint: $(STAMP)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	CPMI_HOME=$$(mktemp -d) $(BIN)/dg check defs

format: $(STAMP)-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)-dev
	$(BIN)/python performance/scoring.py

clean:
	rm -rf .venv .cpmi

.venv:
	$(PYTHON) -m venv .venv

# torch comes first and pinned, so that no other package pulls a CUDA build in its place
$(STAMP): pyproject.toml constraints.txt | .venv
	$(BIN)/pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(STAMP)-dev: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@
