# make run    a gateway that answers, with the built-in simulator as its upstream
# make test   all tests

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The classic editable layout: twistd finds its plugins by walking sys.path.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat

.PHONY: run test lint format schema bench clean

run: $(VENV)/run.stamp
	exec $(BIN)/twistd -n --pidfile= mgw -c etc/mgw-demo.yaml --demo

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: $(VENV)/run.stamp
	$(BIN)/python -m mgw.config.schema > etc/mgw.schema.json

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench.run

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: setup.py | $(VENV)/bin/python
	$(INSTALL) --editable .
	touch $@

$(VENV)/dev.stamp: setup.py | $(VENV)/bin/python
	$(INSTALL) --editable '.[dev]'
	touch $(VENV)/run.stamp $@
