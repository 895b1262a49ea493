# Two commands do everything: `make demo` and `make test`. Both make the virtual environment they need.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin

.PHONY: demo test lint clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,verify]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/medsynth demo --output demo --force

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto

clean:
	rm -rf $(VENV) demo build *.egg-info
