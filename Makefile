PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEBIAN_PYTHON ?= /usr/bin/python3
MINUTES ?= 20
# Of bench-ratios and bench-public: only steps with this word in their name.
ONLY ?=
# RIVALS=1 measures bench-public beside the gateways of others, QUICK=1 only tries that all is measured, and
# GATEWAY_TREE=PATH measures the gateway of another checkout.
RIVALS ?=
QUICK ?=
GATEWAY_TREE ?=
# How "make pins" looks versions up; "make pins UPGRADE=" keeps those that are pinned and still allowed.
UPGRADE ?= --upgrade
LOOK_UP = .venv-pins/bin/uv pip compile --quiet --universal --python-version 3.11 --custom-compile-command 'make pins' $(UPGRADE)
PIP = python -m pip install --quiet --disable-pip-version-check
# What fails soonest when something basic is wrong: without the slow tests, a minute or two on two cores.
FIRST_TESTS := tests/documents tests/pure tests/memory/web tests/memory/test_costs.py

.PHONY: help run check test test-newest test-thorough pins screenshots site test-agents test-browser lint format docs schema routes dist deb try-deb image release lint-security soak bench bench-crowd bench-fidelity bench-history bench-limits bench-memory bench-public bench-ratios bench-realtime bench-responses bench-rivals bench-shapes bench-soak bench-streams bench-translation bench-workers clean .venv-deb

help:
	@echo 'make run      start a gateway with the built-in simulator as its provider; needs no key'
	@echo 'make check    run the linter and the quick tests, in a minute or two'
	@echo 'make test     run all tests'
	@echo 'make test-thorough   try every law with 1,500 examples, as before a release; in about half an hour'
	@echo 'make lint     run ruff, mypy and the import rules'
	@echo 'make format   format the code with ruff'
	@echo 'make docs     regenerate the schema, the shell completions, and what is generated in docs/'
	@echo 'make test-newest   say what the newest SDKs bring, and run the tests that use an SDK with them'
	@echo 'make pins     look up the newest versions of what the tests need, and pin them in constraints.txt'
	@echo 'make site     build the site of the documents into build/site/'
	@echo 'make screenshots   take the pictures of the dashboard in docs/images again, in about three minutes'
	@echo 'make dist     build the wheel and the source archive into dist/'
	@echo 'make deb      build the Debian package, on Debian 12'
	@echo 'make try-deb  install that package on a clean Debian 12 in a folder and use it; needs root'
	@echo 'make image    build a container image with the Debian package, and try it; needs root'
	@echo 'make release VERSION=1.2.3   build all of a release and try it; with TAG=1 also commit and tag it'
	@echo 'make lint-security   ask for known vulnerabilities of the libraries that the gateway needs'
	@echo 'make soak     send a million mixed requests through a gateway and check every response'
	@echo 'make bench-soak MINUTES=20   mixed requests for a time: memory and latency at the end and at the beginning'
	@echo 'make bench, make bench-ratios, make bench-shapes, make bench-translation   measure the gateway'
	@echo 'make bench-realtime   measure sessions over WebSockets'
	@echo 'make bench-responses  measure what clients of Responses cost beside those of chat'
	@echo 'make bench-fidelity   count the bytes and fields that the gateway loses: none'
	@echo 'make bench-history    measure the queries of the dashboard with a million usage events'
	@echo 'make bench-limits     measure what limits of clients cost, in half a minute'
	@echo 'make bench-crowd      measure how long others wait beside 800 streams at full speed'
	@echo 'make bench-streams    measure what an open stream takes in memory'
	@echo 'make bench-workers    measure what workers cost in CPU and memory'
	@echo 'make bench-public   measure the gateway by the public method for gateways, in eight minutes'
	@echo 'make bench-rivals   install the gateways of others, Envoy and Autobahn for these measurements'
	@echo 'make bench-memory   count what a request costs, without kernel or rivals, in half a minute'
	@echo 'make test-agents   test coding agents and agent SDKs with the gateway'
	@echo 'make test-browser  test the dashboard in a browser'
	@echo 'make clean    remove everything that make has created'
	@echo
	@echo 'This needs Python 3.11 or newer. To use another one than python3: make run PYTHON=python3.12'

run: $(VENV)/run.stamp
	@exec $(BIN)/twistd -n --pidfile= mgw -c etc/mgw-demo.yaml --demo

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal

# A law alone may take minutes with so many examples.
test-thorough: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal --timeout 3600 -m hypothesis --hypothesis-profile thorough

check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow' $(FIRST_TESTS)

test-newest: $(VENV)/dev.stamp
	$(PYTHON) -m venv --clear .venv-newest
	.venv-newest/bin/$(PIP) --config-settings editable_mode=compat --editable '.[dev]'
	$(BIN)/python -m tools.newest .venv-newest/bin/python

test-agents: $(VENV)/dev.stamp .agents/install.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/agents

test-browser: $(VENV)/dev.stamp .browser/install.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/browser

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/dev.stamp
	$(BIN)/python -m tools.generate

site: $(VENV)/dev.stamp
	$(BIN)/python -m sphinx -q -W --keep-going -n -b html -c docs -d build/site/.doctrees . build/site

screenshots: $(VENV)/dev.stamp .browser/install.stamp
	$(BIN)/python -m tools.screenshots

pins: .venv-pins/install.stamp
	sed -n 's/^requires = \["\(.*\)"\]$$/\1/p' pyproject.toml | $(LOOK_UP) setup.py - --extra dev --extra release -o constraints.txt
	$(LOOK_UP) setup.py --extra bench -o bench/constraints.txt
	$(LOOK_UP) bench/requirements-rivals.txt -o bench/constraints-rivals.txt
	$(LOOK_UP) tests/agents/requirements.txt -o tests/agents/constraints.txt
	$(LOOK_UP) tests/agents/requirements-older.txt -o tests/agents/constraints-older.txt

schema routes: $(VENV)/run.stamp
	$(BIN)/python -m tools.generate $@

deb:
	dpkg-buildpackage -us -uc -b

try-deb:
	tools/try_package.sh

image:
	tools/oci_image.sh

release: .venv-release/install.stamp
	@test -n '$(VERSION)' || { echo 'Which version? make release VERSION=1.2.3' >&2; exit 1; }
	.venv-release/bin/python -m tools.release '$(VERSION)' $(if $(TAG),--tag)

lint-security: .venv-release/install.stamp
	.venv-release/bin/python -m tools.audit

bench: $(VENV)/dev.stamp .venv-deb
	$(BIN)/python -m bench.run
	$(BIN)/python -m bench.transfers
	$(BIN)/python -m bench.ratios

bench-ratios: $(VENV)/dev.stamp .venv-deb
	$(BIN)/python -m bench.ratios $(if $(ONLY),--only '$(ONLY)')

bench-public: $(VENV)/dev.stamp .venv-deb
	$(BIN)/python -m bench.public $(if $(ONLY),--only '$(ONLY)') $(if $(RIVALS),--rivals) $(if $(QUICK),--quick) \
		$(if $(GATEWAY_TREE),--gateway-tree '$(GATEWAY_TREE)')

bench-realtime: $(VENV)/dev.stamp
	$(BIN)/python -m bench.realtime

bench-limits: $(VENV)/dev.stamp
	$(BIN)/python -m bench.limits

bench-crowd: $(VENV)/dev.stamp
	$(BIN)/python -m bench.crowd

bench-memory: $(VENV)/dev.stamp
	$(BIN)/python -m bench.memory

bench-rivals: .venv-bench/install.stamp .venv-rivals/install.stamp .portkey/install.stamp

bench-fidelity: $(VENV)/dev.stamp
	$(BIN)/python -m bench.fidelity

bench-history: $(VENV)/dev.stamp
	MGW_HISTORY_EVENTS=1000000 $(BIN)/python -m pytest -n 0 -s tests/memory/dashboard/test_month_of_events.py

bench-streams: $(VENV)/dev.stamp
	$(BIN)/python -m bench.streams

bench-workers: $(VENV)/dev.stamp
	$(BIN)/python -m bench.workers

bench-shapes: $(VENV)/dev.stamp
	$(BIN)/python -m bench.shapes --table

soak: $(VENV)/dev.stamp
	$(BIN)/python -m tests.support.soak

bench-soak: $(VENV)/dev.stamp
	$(BIN)/python -m tests.support.soak --minutes $(MINUTES)

bench-responses: $(VENV)/dev.stamp
	$(BIN)/python -m bench.responses

bench-translation: $(VENV)/dev.stamp .venv-bench/install.stamp
	$(BIN)/python -m bench.translation

dist: $(VENV)/run.stamp
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/$(PIP) -c constraints.txt build
	PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt .venv-dist/bin/python -m build
	rm -rf .venv-dist

clean:
	rm -rf $(VENV) .venv-bench .venv-deb .venv-dist .venv-newest .venv-pins .venv-release .venv-rivals .portkey .agents .browser build dist *.egg-info

.agents/install.stamp: tests/agents/package.json tests/agents/package-lock.json tests/agents/requirements.txt tests/agents/constraints.txt tests/agents/requirements-older.txt tests/agents/constraints-older.txt
	mkdir -p .agents && cp $^ .agents/
	npm ci --prefix .agents --ignore-scripts --no-audit --no-fund
	$(PYTHON) -m venv .agents/python
	.agents/python/bin/$(PIP) -c .agents/constraints.txt -r .agents/requirements.txt
	$(PYTHON) -m venv .agents/older
	.agents/older/bin/$(PIP) -c .agents/constraints-older.txt -r .agents/requirements-older.txt
	touch $@

.browser/install.stamp: tests/browser/package.json tests/browser/package-lock.json
	mkdir -p .browser && cp $^ .browser/
	npm ci --prefix .browser --ignore-scripts --no-audit --no-fund
	touch $@

.venv-bench/install.stamp: setup.py bench/constraints.txt
	$(PYTHON) -m venv --clear .venv-bench
	.venv-bench/bin/$(PIP) -c bench/constraints.txt '.[bench]'
	touch $@

.venv-rivals/install.stamp: bench/requirements-rivals.txt bench/constraints-rivals.txt
	$(PYTHON) -m venv --clear .venv-rivals
	.venv-rivals/bin/$(PIP) -c bench/constraints-rivals.txt -r bench/requirements-rivals.txt
	touch $@

# The gateway on Debian's interpreter, which its package runs on, where that is another one than $(PYTHON); without
# it, the columns of the benchmarks that need it stay empty.
.venv-deb: $(VENV)/dev.stamp
	@if $(BIN)/python -m bench.interpreters $(DEBIAN_PYTHON); then \
		[ .venv-deb/run.stamp -nt setup.py -a .venv-deb/run.stamp -nt constraints.txt ] || \
		{ .ci/install .venv-deb $(DEBIAN_PYTHON) . && touch .venv-deb/run.stamp; } || \
		echo 'The columns of $(DEBIAN_PYTHON) stay empty.' >&2; \
	fi

.venv-release/install.stamp: setup.py constraints.txt
	$(PYTHON) -m venv --clear .venv-release
	.venv-release/bin/$(PIP) -c constraints.txt '.[release]'
	touch $@

.venv-pins/install.stamp:
	$(PYTHON) -m venv .venv-pins
	.venv-pins/bin/$(PIP) uv==0.13.9
	touch $@

.portkey/install.stamp: bench/portkey/package.json bench/portkey/package-lock.json
	mkdir -p .portkey && cp $^ .portkey/
	npm ci --prefix .portkey --ignore-scripts --no-audit --no-fund
	touch $@

$(VENV)/run.stamp: setup.py constraints.txt
	@.ci/install $(VENV) '$(PYTHON)' .
	@touch $@

$(VENV)/dev.stamp: setup.py constraints.txt
	@.ci/install $(VENV) '$(PYTHON)' '.[dev]'
	@touch $(VENV)/run.stamp $@
