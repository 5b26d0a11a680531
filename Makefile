# Every target sets itself up: python3, git and make are all that is needed.
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test slow check bench clean

demo: $(READY)
	@$(BIN)/potluck demo

test: check
	@$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

slow: $(READY)
	@JAX_DISABLE_MOST_OPTIMIZATIONS=0 EXAMPLES=100 $(BIN)/pytest -n 3 -o faulthandler_timeout=1500 -m slow
	@JAX_DISABLE_MOST_OPTIMIZATIONS=0 EXAMPLES=500 $(BIN)/pytest -o addopts="--strict-markers --strict-config -q" -o faulthandler_timeout=1500 -n 2 --dist loadfile -m "not slow" tests/economy tests/ledger

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
