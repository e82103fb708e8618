# make run    a gateway that answers, with the built-in simulator as its upstream
# make test   all tests

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The classic editable layout: twistd finds its plugins by walking sys.path.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat

.PHONY: run test test-agents lint format schema routes bench bench-translation clean

run: $(VENV)/run.stamp
	exec $(BIN)/twistd -n --pidfile= mgw -c etc/mgw-demo.yaml --demo

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-agents: $(VENV)/dev.stamp .agents/install.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/agents

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

routes: $(VENV)/run.stamp
	$(BIN)/python -m mgw.routing.document > docs/routes.rst

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench.run
	$(BIN)/python -m bench.transfers

bench-translation: $(VENV)/dev.stamp .venv-bench/install.stamp
	$(BIN)/python -m bench.translation

clean:
	rm -rf $(VENV) .venv-bench .agents build dist *.egg-info

.agents/install.stamp: tests/agents/package.json tests/agents/package-lock.json
	mkdir -p .agents && cp $^ .agents/
	npm ci --prefix .agents --ignore-scripts --no-audit --no-fund
	touch $@

.venv-bench/install.stamp: setup.py
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check '.[bench]'
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: setup.py | $(VENV)/bin/python
	$(INSTALL) --editable .
	touch $@

$(VENV)/dev.stamp: setup.py | $(VENV)/bin/python
	$(INSTALL) --editable '.[dev]'
	touch $(VENV)/run.stamp $@
