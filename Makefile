# Every target does its own set-up; nothing but make and Python 3.11 or newer with pip needs to be there.
# Another interpreter: make PYTHON=python3.13 test. More options of a command: make demo ARGS="--duration 10".

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
COMPILED := build/compiled
SIMULATOR := build/simulator
COMPILED_TESTS := tests/unit/core tests/property tests/sim tests/conformance tests/unit/test_build.py
# As many tests at a time as there are processors; one after the other: make test WORKERS=0.
PYTEST := $(BIN)/python -m pytest -q -W error -n $(or $(WORKERS),logical) --dist worksteal
# What a compiled build needs is pinned as well.
LOCK := HATCH_BUILD_HOOKS_ENABLE=1 CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/python -m piptools compile --quiet --generate-hashes --allow-unsafe \
	--strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host $(LOCK_ARGS)

.PHONY: demo test check conformance sim soak mutants gangs fuzz bench profile protos lock format clean compiled compiled-test compiled-bench

# The cluster fills, queues and drains before your eyes. DURATION (seconds), NODES, SEED; KEEP=1 leaves the daemon up.
demo: $(READY)
	$(BIN)/schedulerd demo $(if $(DURATION),--duration $(DURATION)) $(if $(NODES),--nodes $(NODES)) \
		$(if $(SEED),--seed $(SEED)) $(if $(KEEP),--keep) $(ARGS)

# All tests but those that take a minute or more each: a container is built, hostile contents are sent for a minute.
test: $(READY)
	$(PYTEST) -m "not slow" $(ARGS)

# What CI runs, in the order in which it fails fastest.
check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python protos/generate.py --check
	$(BIN)/mypy
	$(PYTEST)

# The recorded scenarios of the peer: make conformance ARGS="sort_fifo_basic --level order -v"
conformance: $(READY)
	$(BIN)/python -m tests.conformance $(ARGS)

# A seeded random world with faults against the core, invariants after every step; what fails is made short and written
# to a file that can be judged again. Which world it is about is what the seed leaves when divided by their number.
sim: $(READY)
	$(BIN)/python -m tests.sim --seed $(or $(SEED),42) --steps $(or $(STEPS),10000) $(ARGS)

# Many seeds of all worlds on all processors, for hours. It goes on where it was interrupted, as long as nothing changed.
# In a copy with machine code, which takes a C compiler and two minutes; without one: make soak INTERPRETED=1
soak: $(if $(INTERPRETED),$(READY),$(SIMULATOR)/.ready)
	cd $(if $(INTERPRETED),.,$(SIMULATOR)) && $(CURDIR)/$(BIN)/python -m tests.sim --seeds $(or $(SEEDS),10000) --steps $(or $(STEPS),2000) \
		--jobs 0 --look-at-all-every $(or $(EVERY),20) --resume $(CURDIR)/.soak --output $(CURDIR)/.soak $(ARGS)

# Whether the simulator finds every one of the core's deliberate breaks: make mutants ARGS="--search" looks for seeds.
mutants: $(READY)
	$(BIN)/python -m tests.sim.mutants --jobs 2 $(ARGS)

# Gangs over gRPC while the resource manager and the daemon are killed, stopped and standing still:
# make gangs ARGS="--seed 7 --kills 3"
gangs: $(READY)
	$(BIN)/python -m tests.contract.gangs $(ARGS)

# Bytes of any kind, and messages with hostile contents, for every method of a running daemon, while others are served:
# make fuzz ARGS="--seed 7 --seeds 3 --rounds 11"
fuzz: $(READY)
	$(BIN)/python -m tests.contract.fuzz $(ARGS)

# All workloads in every way takes hours; some of them: make bench ARGS="u e --grpc"
bench: $(READY)
	$(BIN)/python -m benchmarks $(or $(ARGS),--everything)

# Where the time of a placement goes: make profile ARGS="a2000 --repeat 3". The sampler is not among our dependencies.
profile: $(READY)
	$(BIN)/python -m pip install --quiet "py-spy>=0.4"
	$(BIN)/python -m benchmarks.profile $(or $(ARGS),u2000)

# The core as machine code (docs/compiled.md), in a copy of the project: nothing compiled stands beside the sources.
compiled: $(COMPILED)/.ready

# The same tests as ever, but for those that patch or count what only an interpreter shows.
compiled-test: $(COMPILED)/.ready
	cd $(COMPILED) && $(CURDIR)/$(PYTEST) -m "not interpreted" $(or $(ARGS),$(COMPILED_TESTS))

compiled-bench: $(COMPILED)/.ready
	cd $(COMPILED) && $(CURDIR)/$(BIN)/python -m benchmarks $(or $(ARGS),--everything)

# Regenerates schedulerd/_generated after a change of a .proto file.
protos: $(READY)
	$(BIN)/python protos/generate.py

# Pins dependencies anew after a change in pyproject.toml; LOCK_ARGS=--upgrade takes the newest of everything.
# Run it with Python 3.11: what 3.11 needs is what the newer ones need and a little more.
lock: $(READY)
	$(LOCK) --build-deps-for wheel --only-build-deps --output-file requirements-build.lock pyproject.toml
	$(LOCK) --extra simulate --output-file requirements.lock pyproject.toml
	$(LOCK) --extra simulate --extra compile --extra dev --constraint requirements.lock --constraint requirements-build.lock \
		--build-deps-for wheel --output-file requirements-dev.lock pyproject.toml

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(COMPILED)/.ready: $(READY) $(shell git ls-files schedulerd tests benchmarks) pyproject.toml
	rm -rf $(COMPILED)
	mkdir -p $(COMPILED)
	git ls-files -z | xargs -0 cp --parents --target-directory $(COMPILED)
	cd $(COMPILED) && HATCH_BUILD_HOOKS_ENABLE=1 $(CURDIR)/$(BIN)/python -m hatchling build --target wheel
	@touch $@

$(SIMULATOR)/.ready: $(READY) $(shell git ls-files schedulerd tests) pyproject.toml
	rm -rf $(SIMULATOR)
	mkdir -p $(SIMULATOR)
	git ls-files -z | xargs -0 cp --parents --target-directory $(SIMULATOR)
	cd $(SIMULATOR) && $(CURDIR)/$(BIN)/python -m tests.compile_simulator
	@touch $@

# The virtual environment, made once and again whenever the pinned packages or the project's metadata change.
$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "schedulerd needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.13" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
