# From a fresh clone: `make run` plays a federation and writes its page, `make test` runs the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
RUN ?= first
INSTALLED := $(VENV)/.installed

export FLWR_TELEMETRY_ENABLED := 0
export FLWR_DISABLE_UPDATE_CHECK := 1
export RAY_USAGE_STATS_ENABLED := 0

.PHONY: install run test check clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "uv<0.12"
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable ".[all]"
	touch $@

run: install
	rm -rf runs/$(RUN)
	$(BIN)/aoi run -c run-name=$(RUN)
	$(BIN)/aoi report $(RUN)

test: install
	$(BIN)/python -m pytest

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
