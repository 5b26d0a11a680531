# Every target sets itself up: python3, git and make are all that is needed.
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ORACLE := $(VENV)/.oracle

.PHONY: demo test slow check bench clean

demo: $(READY)
	@$(BIN)/potluck game --preset paper --sweep 0:16:33 --report out/demo

test: check
	@$(BIN)/pytest -n 2 -m "not slow"

slow: $(ORACLE)
	@$(BIN)/pytest -n 2 -m slow

check: $(READY)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

bench: $(READY)
	@$(BIN)/potluck bench economy

$(READY): pyproject.toml constraints.txt tools/venv.sh
	@sh tools/venv.sh $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

# The oracle is compiled from source: optimising it would only lengthen the wait.
$(ORACLE): $(READY)
	@echo "Building pygambit, the outside oracle (some minutes, once)"
	@CFLAGS="-O1 -g0" $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	@rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
