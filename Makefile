# Everything there is to do with this tree. `make help` lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PROGRESS := ./scripts/with-progress
SOURCES := src tests bench examples scripts deploy
TEST_PACKAGES := gcc libc6-dev systemd dbus-daemon passwd docker.io busybox-static python3 python3-venv

.DEFAULT_GOAL := help
.PHONY: help install kernel up dev demo test test-repeat test-deploy test-outages test-torch prove-quotas check simulate bench lock docs clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# Looked at every time, and written only when the environment is made: anew, if another PYTHON is named than it has.
$(VENV)/pyvenv.cfg: FORCE
	@./scripts/make-venv $(VENV) $(PYTHON) $(if $(filter file,$(origin PYTHON)),,named)

.PHONY: FORCE
FORCE:

$(VENV)/.installed: requirements/runtime.lock pyproject.toml $(VENV)/pyvenv.cfg
	@$(PROGRESS) "Installing packages" $(PIP) install --require-hashes -r requirements/runtime.lock
	@$(PROGRESS) "Installing tgpu" $(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# A cluster compiles it by itself, in the background, once it has 32 nodes. The tests and benchmarks need it before.
$(VENV)/.kernel: $(VENV)/.installed $(wildcard src/tgpu/core/kernel/*.py) src/tgpu/core/engine.py
	@$(BIN)/python -m tgpu.wiring.kernel_cache
	@touch $@

$(VENV)/.installed-dev: requirements/dev.lock $(VENV)/.installed
	@$(PROGRESS) "Installing packages for tests" $(PIP) install --require-hashes -r requirements/dev.lock
	@touch $@

install: $(VENV)/.installed ## Make .venv with .venv/bin/tgpu in it

kernel: $(VENV)/.kernel ## Compile the planner's kernel now, for clusters of 32 nodes and more

up: install ## Install and start tgpu on this machine; Ctrl-C stops it, running jobs run on
	@$(BIN)/tgpu up $(ARGS)

dev: $(VENV)/.installed-dev ## Like up, in a home of its own, restarting when the code changes
	@TGPU_HOME=$(CURDIR)/.dev-home $(BIN)/tgpu up --reload --simulate-gpus 8 $(ARGS)

demo: install ## The product in one minute, on 8 simulated GPUs; cleans up after itself
	@$(BIN)/python examples/demo.py

# Hundreds of processes are started: without bytecode each would compile the product anew.
test: $(VENV)/.installed-dev $(VENV)/.kernel check ## Install what the tests need and run them all
	@./scripts/install-debian $(TEST_PACKAGES)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tests.harness.once $(ARGS)

# Ctrl-C stops it, and the same command resumes it. Results stay in .test-repeat.
test-repeat: $(VENV)/.installed-dev $(VENV)/.kernel ## The suite N times (5) beside LOAD (2) busy processes; ONLY=processes
	@./scripts/install-debian $(TEST_PACKAGES)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tests.harness.repeat --runs $(or $(N),5) --load $(or $(LOAD),2) \
	  --only $(or $(ONLY),all) -- $(ARGS)

# Starts a Docker engine of its own, which needs root and some minutes: not part of `make test`.
test-deploy: $(VENV)/.installed-dev ## Build the images and run the cluster of deploy/compose.yaml
	@./scripts/install-debian docker.io docker-compose
	$(BIN)/python deploy/try_images.py

prove-quotas: $(VENV)/.installed-dev $(VENV)/.kernel ## Crowds against limits, longer and on more seeds than `make test`
	$(BIN)/python -m tests.end_to_end.quota.proof $(ARGS)

test-outages: $(VENV)/.installed-dev ## Outages of minutes, with the timers that users get; `make test` has them shorter
	$(BIN)/python -m pytest -q --durations 0 tests/end_to_end/cluster/long_outages.py $(ARGS)

# Some GB: torch, in an environment of its own, with all that it brings along.
test-torch: $(VENV)/.installed-dev $(VENV)/.kernel $(VENV)/torch/.installed ## Real torch.distributed over gangs on two agents
	TGPU_TORCH=$(abspath $(VENV))/torch $(BIN)/python -m pytest -q --durations 0 tests/end_to_end/torch_gangs.py $(ARGS)

$(VENV)/torch/.installed: $(VENV)/.installed-dev
	$(BIN)/python -m venv $(VENV)/torch
	$(VENV)/torch/bin/pip install --quiet --disable-pip-version-check torch numpy
	touch $@

check: $(VENV)/.installed-dev ## Lint, types, layers
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

simulate: $(VENV)/.installed-dev ## Many more seeds of the fault simulation than the tests run
	$(BIN)/python -m tgpu.sim --seeds $(or $(SEEDS),0-4999)

bench: $(VENV)/.installed-dev $(VENV)/.kernel ## Every benchmark, as a table
	@$(BIN)/python bench/run_all.py $(ARGS)

docs: $(VENV)/.installed-dev ## Draw what is drawn from the code
	$(BIN)/python scripts/draw_lifecycle.py
	$(BIN)/python scripts/list_settings.py
	$(BIN)/python scripts/list_manifest_fields.py
	$(BIN)/python scripts/list_slurm_flags.py

lock: ## Resolve the lock files anew (needs uv)
	uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --universal --python-version 3.11 \
	  --extra build pyproject.toml -o requirements/runtime.lock
	uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --universal --python-version 3.11 \
	  --extra build --extra dev pyproject.toml -o requirements/dev.lock

clean: ## Remove everything that was made here
	rm -rf $(VENV) .dev-home .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
