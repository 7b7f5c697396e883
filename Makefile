# Everything from a machine that has Python >= 3.11 and make: `make run` and `make test` do all the set-up, once.

PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers
DOCS := $(VENV)/.docs

# Commands of the tests start Python many times; bytecode on disk makes each start cheaper.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test quick lint format docs bench house evidence clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Re-done only when what is to be installed has changed. Exact versions are in constraints.txt; the locks add the hash of every file.
# make run installs what the library itself needs; make test adds the tools of developers.
# Bytecode is written when a module is first imported; writing all of it is a third of an installation.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-warn-script-location --no-compile
$(RUNS): pyproject.toml runtime.lock
	@test -n "$(PYTHON)" || { echo "smoothcruiser needs Python 3.11 or later; name it with make PYTHON=..." >&2; exit 2; }
	@echo "setting up $(VENV) (once; about 20 seconds)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r runtime.lock
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $(RUNS)

$(READY): $(RUNS) requirements.lock
	@echo "installing the tools for tests into $(VENV) (once; about a minute)" >&2
	@$(PIP) --require-hashes -r requirements.lock
	@touch $(READY)

# mctx, JAX and a notebook's kernel, for the evidence alone.
$(PEERS): $(READY) peers.lock
	@$(PIP) --no-deps --require-hashes -r peers.lock
	@touch $(PEERS)

$(DOCS): $(RUNS) docs.lock
	@echo "installing the tools for the site into $(VENV) (once; about half a minute)" >&2
	@$(PIP) --require-hashes -r docs.lock
	@touch $(DOCS)

run: $(RUNS) ## plan on a built-in problem, and show the exact answer beside it
	@$(BIN)/smoothcruiser plan gridworld:n=5 --discount 0.5 --temperature 0.5 --state 23 --epsilon 5% --delta 0.1 \
		--method smoothcruiser --compare-exact

# QuantEcon compiles and caches gufuncs at import; two test workers that do so at once leave a cache that aborts every later import
# (seen: "LLVM ERROR: Symbol not found: __gufunc__..."). One process fills it first.
test: lint ## what CI runs: lint, types, imports, tests
	@$(BIN)/python -c 'import quantecon'
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

quick: $(READY) ## the unit tests that neither compile nor start processes: half a minute
	@$(BIN)/python -m pytest tests/unit -m "not compiles"

lint: $(READY) ## ruff, mypy (strict), import-linter
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > $(VENV)/lint-imports.log 2>&1 || { cat $(VENV)/lint-imports.log; exit 1; }

format: $(READY) ## let ruff format and fix what it can
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

# Nothing is fetched: neither by the build, which runs the notebooks, nor by the pages.
docs: $(DOCS) ## the documentation site: docs/_build/html/index.html; warnings are errors
	@$(BIN)/python -m sphinx -b html -W --keep-going -n -q docs docs/_build/html
	@$(BIN)/python docs/price/build.py --out docs/_build/html/price.html
	@$(BIN)/python docs/_site/check.py docs/_build/html

bench: $(READY) ## ratios against C and against other libraries; writes docs/evidence/bench.md
	@$(BIN)/python -m benchmarks.run_all

house: $(RUNS) ## files, lines, names and paths of the code, counted
	@$(BIN)/python -m benchmarks.house

evidence: $(PEERS) ## the long runs (three hours): coverage, kills, curves; writes docs/evidence
	@mkdir -p docs/evidence
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m slow
	@$(BIN)/python -m benchmarks.coverage.sharp_coverage --runs 130 --out docs/evidence/coverage.md
	@$(BIN)/python -m benchmarks.coverage.portfolio --out docs/evidence/portfolio.md
	@$(BIN)/python -m benchmarks.coverage.portfolio_coverage --worlds 90 --out docs/evidence/portfolio-coverage.md
	@$(BIN)/python -m benchmarks.reliability.limits --out docs/evidence/limits.md
	@$(BIN)/python -m benchmarks.reliability.limits_used --out docs/evidence/limits-used.md
	@$(BIN)/python -m benchmarks.coverage.many_coverage --runs 60 --out docs/evidence/many-coverage.md
	@$(BIN)/python -m benchmarks.certified.totals --runs 400 --out docs/evidence/totals.md
	@$(BIN)/python -m benchmarks.certified.state_bounds --out docs/evidence/state-bounds.md
	@$(BIN)/python -m benchmarks.engine.price_table --out docs/evidence/prices.md
	@$(BIN)/python -m benchmarks.coverage.clipping --out docs/evidence/clipping.md
	@$(BIN)/python -m benchmarks.engine.paid --out docs/evidence/paid.md
	@$(BIN)/python -m benchmarks.reliability.calls_and_price --requests 2000 --out docs/evidence/calls-and-price.md
	@$(BIN)/python -m benchmarks.exact.exact_solver --out docs/evidence/exact-solver.md
	@$(BIN)/python -m benchmarks.coverage.root_coverage --out docs/evidence/root-coverage.md
	@$(BIN)/python -m benchmarks.coverage.randomized_worlds --out docs/evidence/randomized-worlds.md
	@$(BIN)/python -m benchmarks.coverage.lying_worlds --runs 20 --out docs/evidence/lying-worlds.md
	@$(BIN)/python tests/unit/test_mistakes.py --out docs/evidence/mistakes.md
	@$(BIN)/python -m benchmarks.worlds.scan_openspiel --out docs/evidence/scan-openspiel.md
	@$(BIN)/python -m benchmarks.reliability.survival --out docs/evidence/survival.md
	@$(BIN)/python -m benchmarks.reliability.certified_survival --out docs/evidence/certified-survival.md
	@$(BIN)/python -m benchmarks.scale.scale --out docs/evidence/scale.md
	@$(BIN)/python -m benchmarks.scale.cluster --out docs/evidence/cluster.md
	@$(BIN)/python -m benchmarks.engine.latency --out docs/evidence/latency.md
	@$(BIN)/python -m benchmarks.engine.first_answer --out docs/evidence/first-answer.md
	@$(BIN)/python -m benchmarks.engine.hindsight --out docs/evidence/hindsight.md
	@$(BIN)/python -m benchmarks.reliability.damaged_stores --out docs/evidence/damaged-stores.md
	@$(BIN)/python -m benchmarks.reliability.damaged_cache --out docs/evidence/damaged-cache.md
	@$(BIN)/python -m benchmarks.reliability.command_lines --lines 3000 --out docs/evidence/command-lines.md
	@$(BIN)/python -m benchmarks.certified.certified --coverage > docs/evidence/certified.txt
	@$(BIN)/python -m benchmarks.certified.certified --scaling --million --out docs/evidence/certified-scaling.md
	@$(BIN)/python -m benchmarks.coverage.horizon_coverage --runs 6000 --out docs/evidence/horizon-coverage.md
	@$(BIN)/python -m benchmarks.coverage.horizon_coverage --runs 2500 --families partly "at the" --out docs/evidence/declared-coverage.md
	@$(BIN)/python -m benchmarks.coverage.trust --runs 500 --out docs/evidence/trust.md
	@$(BIN)/python -m benchmarks.certified.evaluate_paths --out docs/evidence/evaluate-paths.md
	@$(BIN)/python -m benchmarks.certified.critic_paths --out docs/evidence/critic-paths.md
	@$(BIN)/python -m benchmarks.certified.path_evidence --out docs/evidence/path-evidence.md
	@$(BIN)/python -m benchmarks.exact.verification --out docs/evidence/verification.md
	@$(BIN)/python -m benchmarks.worlds.worlds --out docs/evidence/worlds.md
	@$(BIN)/python -m benchmarks.worlds.worlds_jax --out docs/evidence/worlds-jax.md
	@$(BIN)/python -m benchmarks.certified.steering --out docs/evidence/steering.md
	@$(BIN)/python -m benchmarks.tree.widening --calls 100000 --out docs/evidence/widening.md
	@$(BIN)/python -m benchmarks.tree.sampled_actions --out docs/evidence/sampled-actions.md
	@$(BIN)/python -m benchmarks.tree.strength --out docs/evidence/strength.md
	@$(BIN)/smoothcruiser reproduce all --out docs/evidence/reproduce
	@$(BIN)/python -m benchmarks.tree.literature
	@$(BIN)/python -m benchmarks.tree.tree_search --out docs/evidence/literature/tree-search.json
	@$(BIN)/python docs/_site/slim.py docs/evidence

clean: ## remove the environment and every cache of this checkout
	rm -rf $(VENV) build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
