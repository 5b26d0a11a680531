# Every target sets itself up: python3, git and make are all that is needed.
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SLOW   := $(BIN)/pytest -o faulthandler_timeout=1500
COMPUTING := tests/agents tests/economy tests/federation tests/mechanisms tests/studies

.PHONY: demo test slow check bench clean

demo: $(READY)
	@$(BIN)/potluck demo

test: check
	@$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

# What computes more than it compiles is compiled as users do; the rest in haste, as `make test` does.
slow: $(READY)
	@EXAMPLES=100 $(SLOW) -n 4 --maxschedchunk=1 -m slow tests $(COMPUTING:%=--ignore-glob=%/test_*.py)
	@JAX_DISABLE_MOST_OPTIMIZATIONS=0 EXAMPLES=100 $(SLOW) -n 2 --maxschedchunk=1 -m slow $(COMPUTING) --ignore=tests/studies/paper
	@JAX_DISABLE_MOST_OPTIMIZATIONS=0 EXAMPLES=500 $(SLOW) -n 2 --dist loadfile -o addopts="--strict-markers --strict-config -q" -m "not slow" tests/economy tests/ledger

check: $(READY)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

bench: $(READY)
	@$(BIN)/potluck bench economy
	@$(BIN)/potluck bench federation
	@$(BIN)/potluck bench training

$(READY): pyproject.toml constraints.txt tools/venv.sh
	@sh tools/venv.sh $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	@rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
