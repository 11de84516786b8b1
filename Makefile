# Each target builds what it needs from nothing, into .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo viewer browser test check format lint types layers bench mutants attack pages docs notebook sbom wheel clean help

help:  ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

.venv/pyvenv.cfg:
	$(PYTHON) -m venv .venv

.venv/.runtime: .venv/pyvenv.cfg pyproject.toml constraints.txt
	$(INSTALL) --editable .
	@touch $@

.venv/.dev: .venv/.runtime
	$(INSTALL) --editable '.[dev]'
	@touch $@

.venv/.docs: .venv/.runtime
	$(INSTALL) --editable '.[docs]'
	@touch $@

demo: .venv/.runtime  ## train on the embedded phantom, supervised and CoraNet, and show what came out (2 minutes, and pip's time)
	$(BIN)/coranet demo --out runs/demo

viewer: .venv/.dev  ## the viewer of `coranet review`, out of its npm package, for a checkout
	$(BIN)/python -m coranet.review.viewer

browser: viewer  ## the tests in a real browser, where Chromium is installed
	$(BIN)/python -m pytest -q -n 0 -m browser

test: export PYTHONDONTWRITEBYTECODE :=  # what is compiled once is not compiled by every process again
test: .venv/.dev  ## the tests, but for those marked slow, gpu or browser
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder

format: .venv/.dev  ## write the code in the house's format
	$(BIN)/ruff check --fix --quiet src tests benchmarks apps
	$(BIN)/ruff format --quiet src tests benchmarks apps

lint: .venv/.dev
	$(BIN)/ruff format --check --quiet src tests benchmarks apps
	$(BIN)/ruff check --quiet src tests benchmarks apps

types: .venv/.dev
	$(BIN)/mypy

layers: .venv/.dev
	$(BIN)/lint-imports --no-cache

check: lint types layers test  ## format, lint, types, layers, tests: what every commit passes

bench: .venv/.dev  ## measure speed and growth on this CPU, and write benchmarks/RESULTS.md (10 minutes)
	$(BIN)/python benchmarks/cpu.py
	$(BIN)/python benchmarks/prepare.py --all
	$(BIN)/python benchmarks/page.py

pages: .venv/.dev  ## write what is generated in README and docs, from results/ and the methods' files
	$(BIN)/python -m coranet.paper.pages.book

docs: .venv/.docs  ## the pages as a site in site/, with every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

notebook: .venv/.dev  ## run docs/notebook.ipynb from its first cell to its last (a minute)
	$(BIN)/python -m pytest -q -m slow tests/test_notebook.py

wheel:  ## build the wheel, install it into an empty environment, train and predict there (a minute, and pip's time)
	PYTHON=$(PYTHON) bash .ci/wheel

sbom: .venv/.dev  ## what is installed, as a bill of materials in dist/sbom.json, and whether its licences fit ours
	@mkdir -p dist
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible \
	    --output-file dist/sbom.json $(BIN)/python
	$(BIN)/python benchmarks/licences.py dist/sbom.json

mutants: .venv/.dev  ## put small faults into ops, uncertainty, metrics and CoraNet, and count those that tests find (COUNT=60, 15 minutes)
	nice $(BIN)/python benchmarks/mutation.py --count $(or $(COUNT),60) $(if $(AGAINST),--against $(AGAINST))

attack: .venv/.dev  ## attack readers, settings, run folders and commands, and count what ends badly (15 minutes; TABLE=FILE, SEED=0)
	nice $(BIN)/python -m tests.attacks --seed $(or $(SEED),0) $(if $(TABLE),--table $(TABLE))

clean:
	rm -rf .venv site
