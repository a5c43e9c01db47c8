# Two commands for a newcomer: `make demo` and `make test`. Both need only Python 3.11+ and make.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INPUTS := pyproject.toml constraints.txt
# The workers of pytest. One process takes the least processor time, since it imports the libraries once;
# `make test JOBS=auto` is done sooner where processors are idle.
JOBS ?= 0

.PHONY: help demo paper repairs prototypes family family-tables family-networks family-full family-full-texts family-full-networks frontier dual dual-networks dual-memories test test-fast test-numerics torture test-oldest lint check bench docs linkcheck package clean

help:
	@echo "make demo   train, table and draw the paper's Two Moons figure in results/"
	@echo "make paper  train and draw all figures, tables and claims of the paper in results/paper"
	@echo "make family       kernel regression, hash tables, networks and language models, in results/family; half an hour"
	@echo "make family-full  the long sweeps of these, half an hour; it prints the time of each first"
	@echo "make dual         what layers attend to in their training, in results/dual; half an hour, 21 GB"
	@echo "make repairs      patches beside what else mends a wrong prediction, in results/repairs; an hour and a half"
	@echo "make prototypes   when prototypes form, and what noise does to them, in results/prototypes; a quarter of an hour"
	@echo "make frontier     accuracy against prototypes that look like data, in results/frontier; it prints the time first"
	@echo "make test   run the tests"
	@echo "make test-fast      run the quick tests, for use while writing"
	@echo "make test-numerics  run the tests of scores, models and engines"
	@echo "make torture        kill, fill and crowd sweeps at full size, and print what was seen; takes minutes"
	@echo "make lint   ruff, mypy and import-linter"
	@echo "make check  lint and test"
	@echo "make bench  measure speed: both engines beside a plain PyTorch loop"
	@echo "make docs   build the documentation in build/docs, and docs/cli.md from the command line"
	@echo "make linkcheck      follow the links of the documentation to other sites"
	@echo "make package        build the wheel and the source archive in dist/"
	@echo "make test-oldest    run the tests with the oldest supported versions of the dependencies"
	@echo "make clean  remove the virtual environment and caches"

# An empty file in the environment marks what was installed and from which inputs; it is touched only when pip succeeds.
$(VENV)/.installed: $(INPUTS)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(INPUTS)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@ $(VENV)/.installed

demo: $(VENV)/.installed
	$(BIN)/idwbench sweep sweeps/two_moons.yaml
	$(BIN)/idwbench report --table two_moons
	$(BIN)/idwbench figure moons --table two_moons -o results/two_moons.png --force

# The sweeps in the order in which one needs the networks of another.
PAPER := two_moons power_epsilon patches_two_moons mnist patches_mnist power_mnist
paper: $(VENV)/.installed
	for name in $(PAPER); do \
		$(BIN)/idwbench sweep sweeps/paper/paper_$$name.yaml --db results/paper.db || exit 1; \
	done
	$(BIN)/idwbench publish paper -o results/paper --db results/paper.db --force

# One process trains the sweeps $(1), one after the other, into the database $(2), and waits for runs of another process.
sweep_each = for name in $(1); do $(BIN)/idwbench sweep sweeps/$$name.yaml --db $(2) --jobs 1 --wait || exit 1; done

# Two processes at a time: small networks do not keep two threads of one process busy.
FAMILY_TABLES := kernel_regression kernel_regression_friedman1 kernel_regression_diabetes kernel_regression_digits \
	hash_table hash_table_learned family/hash_table_capacity family/hash_table_scores family/hash_table_values \
	family/hash_table_variance family/language_model
FAMILY_NETWORKS := family/network_digits family/network_heads family/network_mnist family/network_fashion_mnist \
	family/layers family/hash_table_additive family/sequence_to_sequence family/sequence_to_sequence_scores
family: $(VENV)/.installed
	$(MAKE) --no-print-directory -j 2 family-tables family-networks
	$(BIN)/idwbench publish family -o results/family --db results/family.db --force

family-tables: $(VENV)/.installed
	$(call sweep_each,$(FAMILY_TABLES),results/family.db)

# The last sweep of the others is trained by both: each leases runs that the other has not.
family-networks: $(VENV)/.installed
	$(call sweep_each,$(FAMILY_NETWORKS) $(lastword $(FAMILY_TABLES)),results/family.db)

FAMILY_FULL_TEXTS := family/full/language_model_aesop family/full/hash_table_capacity_full \
	family/full/hash_table_capacity_slopes family/full/language_model_wikitext_2 family/full/language_model_power \
	family/full/layers_language_model
FAMILY_FULL_NETWORKS := family/full/network_mnist_full family/full/network_fashion_mnist_full \
	family/full/network_digits_full family/full/network_depth
family-full: $(VENV)/.installed
	@sed -n "s/^# \(Time of .*\)/\1/p" sweeps/family/full/*.yaml
	$(MAKE) --no-print-directory -j 2 family-full-texts family-full-networks
	$(BIN)/idwbench publish family -o results/family --db results/family.db --force

family-full-texts: $(VENV)/.installed
	$(call sweep_each,$(FAMILY_FULL_TEXTS),results/family.db)

family-full-networks: $(VENV)/.installed
	$(call sweep_each,$(FAMILY_FULL_NETWORKS),results/family.db)

DUAL_NETWORKS := dual_form
DUAL_MEMORIES := dual_parts dual_history dual_keys lstm lstm_history dual_forgetting dual_limits
dual: BEGIN := $(shell date +%s)
dual: $(VENV)/.installed
	$(MAKE) --no-print-directory -j 2 dual-networks dual-memories
	$(BIN)/idwbench publish dual -o results/dual --db results/dual.db --force
	@echo "make dual took $$((($$(date +%s) - $(BEGIN)) / 60)) minutes"

dual-networks: $(VENV)/.installed
	$(call sweep_each,$(DUAL_NETWORKS),results/dual.db)

dual-memories: $(VENV)/.installed
	$(call sweep_each,$(DUAL_MEMORIES) $(DUAL_NETWORKS),results/dual.db)

REPAIRS := repairs_two_moons repairs_tables repairs_heads repairs_mnist repairs_fashion_mnist
repairs: $(VENV)/.installed
	$(call sweep_each,$(REPAIRS:%=repairs/%),results/repairs.db)
	$(BIN)/idwbench publish repairs -o results/repairs --db results/repairs.db --force

PROTOTYPES := formation_digits weightings weightings_network power_epsilon_datasets corrupted_two_moons corrupted_digits
prototypes: $(VENV)/.installed
	$(call sweep_each,$(PROTOTYPES:%=prototypes/%),results/prototypes.db)
	$(BIN)/idwbench publish prototypes -o results/prototypes --db results/prototypes.db --force

FRONTIER := front penalty sparse_weights longer search slopes many_slopes shifts slopes_digits beside dimensions \
	fashion small_data local_linear
# The search needs Optuna, which is in the development environment.
frontier: $(VENV)/.installed-dev
	@sed -n "s/^# \(Time of .*\)/\1/p" sweeps/frontier/*.yaml
	$(call sweep_each,$(FRONTIER:%=frontier/%),results/frontier.db)
	$(BIN)/idwbench publish frontier -o results/frontier --db results/frontier.db --force

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(JOBS)

test-fast: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow"

test-numerics: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(JOBS) tests/attention tests/models tests/training

# Short versions of these tests are part of `make test`.
torture: $(VENV)/.installed-dev
	IDWBENCH_TORTURE=1 $(BIN)/python -m pytest -n 0 tests/torture tests/fuzz tests/packaging

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

# The source folder is the repository: links between README.md, docs/ and results/published/ are the same on the site.
SPHINX := $(BIN)/python -m sphinx -q -W --keep-going -c docs -d build/doctrees
docs: $(VENV)/.installed-dev
	mkdir -p build
	sed -n '/^## Output and exit codes/,$$p' docs/cli.md > build/cli_end.md
	$(BIN)/python -m typer idwbench.cli.app utils docs --name idwbench --title "Command line" --output build/cli.md
	{ cat build/cli.md; echo; cat build/cli_end.md; } > docs/cli.md
	$(BIN)/python docs/headlines.py
	$(SPHINX) . build/docs
	@echo "the site: build/docs/index.html"

linkcheck: $(VENV)/.installed-dev
	$(SPHINX) -b linkcheck . build/linkcheck

package: $(VENV)/.installed-dev
	$(BIN)/python -m build --no-isolation

# The oldest supported version of each direct dependency. PyTorch stays at the pinned version: older ones need other wheels.
OLDEST := .venv-oldest
$(OLDEST)/.installed: pyproject.toml constraints.txt tests/packaging/oldest.py
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python tests/packaging/oldest.py > $(OLDEST)/requirements.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -r $(OLDEST)/requirements.txt -e .
	@touch $@

# Old packages warn of what they use of newer ones, so that warnings are no errors here. Pins, building and the site are of
# the development environment. Compiled kernels depend on the version of Numba and have a folder of their own.
test-oldest: $(OLDEST)/.installed
	NUMBA_CACHE_DIR=$(CURDIR)/$(OLDEST)/numba $(OLDEST)/bin/python -m pytest -n $(JOBS) -o filterwarnings=default \
		--deselect tests/packaging/test_metadata.py::test_every_package_that_the_project_needs_is_pinned_as_installed \
		--ignore tests/packaging/test_wheel.py

clean:
	rm -rf $(VENV) $(OLDEST) build dist docs/gallery *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
