# On a fresh machine two commands do everything: `make demo` and `make test`.
# Each creates .venv with the standard library's venv and pip, installs what it needs, and runs;
# a second run installs nothing while pyproject.toml stays the same. No target brings torch.
PYTHON ?= python3
VENV   ?= .venv
# passed on to the tool: make test ARGS="-k gram -x"
ARGS   ?=
PY     := $(VENV)/bin/python

EXTRAS_demo := demo,tables
EXTRAS_test := demo,tables,plot,rigor,test
DEMO_READY  := $(VENV)/.installed-demo
TEST_READY  := $(VENV)/.installed-test

.DEFAULT_GOAL := help
# two targets may install into one environment, and pip does not lock it
.NOTPARALLEL:
.PHONY: help demo test lint types contracts doctest check bench wheel clean FORCE

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(DEMO_READY)  ## what the library does, on real data, in a minute
	$(PY) examples/demo.py $(ARGS)

test: $(TEST_READY)  ## every test that needs no torch, on all cores
	$(PY) -m pytest -n auto --dist worksteal $(ARGS)

lint: $(TEST_READY)  ## ruff: rules and formatting
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(TEST_READY)  ## mypy --strict on the three rooms
	$(PY) -m mypy

contracts: $(TEST_READY)  ## which room may import which
	$(PY) -c 'import sys; from importlinter.cli import lint_imports_command as run; sys.exit(run())'

doctest: $(TEST_READY)  ## the examples in the docstrings that need no torch
	$(PY) -m pytest --doctest-modules hermite meanfield bounds --ignore=meanfield/_torch $(ARGS)

check: lint types contracts doctest test  ## all of the above but the demo

bench: $(TEST_READY)  ## benchmarks/bench_*.py, which are no tests
	@if ls benchmarks/bench_*.py >/dev/null 2>&1; then \
		$(PY) -m pytest benchmarks -o python_files='bench_*.py' -o python_functions='bench_* test_*' $(ARGS); \
	else echo "there is no benchmarks/bench_*.py to run"; fi

wheel: $(TEST_READY)  ## sdist and wheel, in dist/
	$(PY) -m build --outdir dist .

clean:  ## remove caches and build products; the environment stays
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks
	find . -name $(VENV) -prune -o -name __pycache__ -prune -exec rm -rf {} +

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "isogram needs Python 3.11 or newer, and '$(PYTHON)' is not: name one with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A stamp holds what was asked for, and is compared at every run: dates would install after each clone or branch
# switch for nothing, and would not notice a checkout that was copied elsewhere together with its .venv.
$(VENV)/.installed-%: FORCE | $(PY)
	@wanted="$$(cksum < pyproject.toml) $(EXTRAS_$*) $(CURDIR)"; \
	if [ "$$(cat $@ 2>/dev/null)" != "$$wanted" ]; then \
		echo "installing isogram[$(EXTRAS_$*)] into $(VENV): once, a minute or two"; \
		$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS_$*)]' || exit 1; \
		echo "$$wanted" > $@; \
	fi

FORCE:
