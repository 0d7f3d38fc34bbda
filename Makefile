# From a fresh clone: `make run` plays a federation and writes its page, `make test` runs the tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SITE ?= site
RUN := first-$(shell date +%Y%m%d-%H%M%S)
# `make run` installs what a run needs, everything else also what tests and documentation need.
RUNS := $(VENV)/.runs
comma := ,
INSTALLED := $(VENV)/.installed

export FLWR_TELEMETRY_ENABLED := 0
export FLWR_DISABLE_UPDATE_CHECK := 1
export RAY_USAGE_STATS_ENABLED := 0
export NO_MKDOCS_2_WARNING := 1
export DISABLE_MKDOCS_2_WARNING := true
# Processes start by the hundred: none shall compile again what another has compiled.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install run test test-all check generated docs pictures versions bench fleet gpu e2e e2e-http clean

install: $(INSTALLED)

# PyTorch's build for this machine's GPU, or for none; where its own index cannot be reached, the package of PyPI.
define uv-install
	test -x $(BIN)/uv || { $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet "uv<0.12"; }
	$(BIN)/uv pip install --quiet --python $(BIN)/python --torch-backend auto --editable ".[$(1)]" 2>/dev/null || \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --editable ".[$(1)]"
	touch $@
endef

$(RUNS): pyproject.toml
	$(call uv-install,train$(comma)sim)

$(INSTALLED): pyproject.toml
	$(call uv-install,all)
	touch $(RUNS)

run: $(RUNS)
	$(BIN)/aoi run -c run-name=$(RUN)
	$(BIN)/aoi report $(RUN)

# Few runs reach these, so their types are checked.
RARE_TESTS := tests/e2e tests/client/test_sleeping_supernodes.py tests/flower/test_hostile_node.py tests/benchmarks/test_fleet.py

# The tests' processes share the cores: one thread each.
test: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest

# The tests marked slow too, which start Ray over and over, or play for minutes; then those that go by the clock, one by one.
test-all: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not alone"
	$(BIN)/python -m pytest -n 0 -m alone

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases $(RARE_TESTS)
	$(BIN)/python -m aoi_fl.config.generate --check
	$(BIN)/python -m pytest -n 0 tests/test_arrows.py
	$(BIN)/python .ci/size.py

# What is written from the table of run keys: the tables of docs/configuration.md, the defaults of pyproject.toml, the
# variables of compose.yaml and .env.example.
generated: install
	$(BIN)/python -m aoi_fl.config.generate

# The documentation as a site in a folder of its own, $(SITE)/index.html; every warning is an error.
docs: install
	$(BIN)/python -m mkdocs build --strict --quiet --site-dir $(abspath $(SITE))
	@echo $(SITE)/index.html

# The pictures of README and of the site, from runs of the default task that are played for them; needs a Chromium.
pictures: install
	$(BIN)/python docs/images/load.py
	$(BIN)/python docs/images/take.py

# The range of Flower: the oldest, the one that is deployed, and the newest that installs, each in an environment of its own.
versions:
	PYTHON=$(PYTHON) .ci/versions

bench: install
	$(BIN)/python -m aoi_fl.lab.benchmarks

# A thousand virtual SuperNodes against a real SuperLink, on the loopback only: forty minutes at most. Thousands that
# sleep: benchmarks asleep.
fleet: install
	$(BIN)/python -m aoi_fl.lab.benchmarks fleet

# What takes a GPU, each within its minutes: whether batched training is the same, what it gains, and CIFAR-10 with the papers' CNN.
gpu: install
	-timeout 120 $(BIN)/python -m pytest -n 8 tests/learning/test_batched.py -rs -m "not alone"
	-timeout 120 $(BIN)/python -m aoi_fl.lab.benchmarks together
	-timeout 240 $(BIN)/python -m aoi_fl.lab.benchmarks gpu
	$(BIN)/aoi reproduce cifar10 --workers 16

e2e: install
	$(BIN)/python -m pytest -n 0 tests/e2e

# A short cluster test of the newest Flower over HTTP; AOI_E2E_FLOWER=newest make e2e runs all of them on it.
e2e-http: install
	AOI_E2E_FLOWER=newest $(BIN)/python -m pytest -n 0 tests/e2e/test_http.py tests/e2e/test_sandbox.py

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
