# Two commands do everything: `make demo` and `make test`. Both make the virtual environment they need.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin

.PHONY: demo test lint docs faults nightly bench release-check clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,federated,verify,cluster,metadata,fhir]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/medsynth demo --output demo --force

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tests/english.py
	$(BIN)/mypy --num-workers auto medsynth cli

test: lint
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -m 'not nightly' -n auto --dist worksteal --durations=15

# Plants each fault of tests/faults into a copy of the sources, and ends in an error if its guard does not fail: nightly.
faults: $(VENV)/.installed
	$(BIN)/python tests/faults/run.py --processes $(or $(PROCESSES),2)

# Everything that takes too long for each push. Prints at the end what failed and how long each part took.
nightly: $(VENV)/.installed
	$(BIN)/python tests/nightly.py $(PARTS)

# Runs a benchmark, or lists all of them: `make bench NAME=panel OPTIONS="--minutes 60"`.
bench: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks $(NAME) $(OPTIONS)

docs: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build --strict

# Builds both distributions, checks what PyPI would show, and runs the demo from the wheel outside the checkout.
release-check: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	rm -rf dist
	PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(PYTHON) -m venv "$$folder/venv"; \
	"$$folder/venv/bin/pip" install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl; \
	cd "$$folder" && venv/bin/medsynth demo

clean:
	rm -rf $(VENV) demo build dist site *.egg-info
