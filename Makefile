# Every target sets up what it needs. Required are only make, and Python 3.11 or newer with pip.
# Another interpreter: make PYTHON=python3.13 test. More options of a command: make demo ARGS="--duration 10".

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
COMPILED := build/compiled
SIMULATOR := build/simulator
COMPILED_TESTS := tests/unit/core tests/property tests/sim tests/conformance tests/unit/test_build.py
# Compiled modules are kept whatever the environment says: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=
# Tests run in parallel, one per processor. One after the other: make test WORKERS=0.
PYTEST := $(BIN)/python -m pytest -q -W error -n $(or $(WORKERS),logical) --dist worksteal
# The requirements of a compiled build are pinned as well.
LOCK := HATCH_BUILD_HOOKS_ENABLE=1 CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/python -m piptools compile --quiet --generate-hashes --allow-unsafe \
	--strip-extras --no-emit-index-url --no-emit-find-links --no-emit-trusted-host $(LOCK_ARGS)

.PHONY: demo newcomer kubernetes test check nightly conformance rest sim soak mutants gangs fuzz bench profile screenshots protos lock format clean compiled compiled-test compiled-bench manifests dist

# Shows how a simulated cluster fills, queues and drains. DURATION (seconds), NODES, SEED; KEEP=1 repeats the
# load until Ctrl-C.
demo: $(READY)
	$(BIN)/schedulerd demo $(if $(DURATION),--duration $(DURATION)) $(if $(NODES),--nodes $(NODES)) \
		$(if $(SEED),--seed $(SEED)) $(if $(KEEP),--keep) $(ARGS)

# Shows schedulerd on a Kubernetes API server: queues, a quota, gangs, preemption, a drained node. It is a real one if
# KUBEBUILDER_ASSETS names a folder with kube-apiserver, kube-controller-manager and etcd, otherwise a fake.
# KEEP=1 leaves everything running, with a kubeconfig, until Ctrl-C.
kubernetes: $(READY)
	$(BIN)/python -m tests.kubernetes.demo $(if $(KEEP),--keep) $(ARGS)

# All tests except those that take more than a few seconds or start processes, but for some ten, with an eighth of the
# seeds and a tenth of the examples (tests/loops.py): `make check` has all of them.
test: $(READY)
	$(PYTEST) -m "not slow" --hypothesis-profile=short $(ARGS)

# What CI runs, the fastest checks first. Tests that are skipped are listed with the reason, then those that failed:
# only the end of the output is shown.
check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python protos/generate.py --check
	$(BIN)/mypy
	$(PYTEST) -m "not nightly or tenth" -rsfE

# All mutants, long seeds and builds of a release, of which `make check` runs a tenth: which one it says at its end, as
# TENTH=0 to 9, which can be given to it. Properties have three times the examples. Takes about an hour and a half.
nightly: $(READY)
	$(PYTEST) -m nightly -rsfE --hypothesis-profile=long $(ARGS)
	$(PYTEST) -m "not nightly" -rsfE --hypothesis-profile=long tests/property tests/unit/wire

# The recorded scenarios of YuniKorn: make conformance ARGS="sort_fifo_basic --level order -v"
conformance: $(READY)
	$(BIN)/python -m tests.conformance $(ARGS)

# Recorded answers of YuniKorn's REST API: make rest FOLDER=recordings ARGS="--rules"
rest: $(READY)
	$(BIN)/python -m tests.rest $(or $(FOLDER),tests/rest/golden) $(ARGS)

# Runs a random world with faults against the core, and checks the invariants after every step. A failure is shortened
# and written to a file that can be checked again. The world is chosen by the seed, modulo the number of worlds.
sim: $(READY)
	$(BIN)/python -m tests.sim --seed $(or $(SEED),42) --steps $(or $(STEPS),10000) $(ARGS)

# Many seeds of all worlds on all processors, for hours. Continues after an interruption, as long as nothing changed.
# Runs in a compiled copy, which needs a C compiler and two minutes. Without a compiler: make soak INTERPRETED=1
soak: $(if $(INTERPRETED),$(READY),$(SIMULATOR)/.ready)
	cd $(if $(INTERPRETED),.,$(SIMULATOR)) && $(CURDIR)/$(BIN)/python -m tests.sim --seeds $(or $(SEEDS),10000) --steps $(or $(STEPS),2000) \
		--jobs 0 --look-at-all-every $(or $(EVERY),20) --resume $(CURDIR)/.soak --output $(CURDIR)/.soak $(ARGS)

# Checks that every mutant of the core is found; some of them: make mutants ARGS="gang 'a guarantee'"
mutants: $(READY)
	$(BIN)/python -m tests.mutants --jobs 2 $(ARGS)

# Gangs over gRPC, while the resource manager and the daemon are killed, stopped and frozen:
# make gangs ARGS="--seed 7 --kills 3"
gangs: $(READY)
	$(BIN)/python -m tests.contract.gangs $(ARGS)

# Sends arbitrary bytes and hostile messages to every method of a running daemon, while other clients are served:
# make fuzz ARGS="--seed 7 --seeds 3 --rounds 11"
fuzz: $(READY)
	$(BIN)/python -m tests.contract.fuzz $(ARGS)

# All workloads in all variants take hours. Some of them: make bench ARGS="u e --grpc"
bench: $(READY)
	$(BIN)/python -m benchmarks $(or $(ARGS),--everything)

# Profiles allocations: make profile ARGS="a2000 --repeat 3". The profiler is not among our dependencies.
profile: $(READY)
	$(BIN)/python -m pip install --quiet "py-spy>=0.4"
	$(BIN)/python -m benchmarks.profile $(or $(ARGS),u2000)

# Compiles the core (docs/compiled.md) in a copy of the project, so that no compiled file is beside the sources.
compiled: $(COMPILED)/.ready

# The usual tests, except those that patch or count what exists only in interpreted code.
compiled-test: $(COMPILED)/.ready
	cd $(COMPILED) && $(CURDIR)/$(PYTEST) -m "not interpreted" $(or $(ARGS),$(COMPILED_TESTS))

compiled-bench: $(COMPILED)/.ready
	cd $(COMPILED) && $(CURDIR)/$(BIN)/python -m benchmarks $(or $(ARGS),--everything)

# Screenshots of the web page from a played story, in both themes and two widths, in build/screenshots; those of the
# README in docs/images. Needs chromium (apt-get install chromium).
screenshots: $(READY)
	$(BIN)/python -m tests.ui.screenshots --docs docs/images $(ARGS)

# Regenerates schedulerd/_generated after a change of a .proto file.
protos: $(READY)
	$(BIN)/python protos/generate.py

# From a clone to a pod that the chart's scheduler has placed, as README.md and docs/install.md say it. Needs a real
# Kubernetes API server, in KUBEBUILDER_ASSETS.
newcomer: $(READY)
	$(BIN)/python -m tests.kubernetes.newcomer

# Makes config/kubernetes from the Helm chart, and the dashboards of the chart. Needs helm, in KUBEBUILDER_ASSETS or on the
# PATH.
manifests: $(READY)
	$(BIN)/python -m tests.kubernetes.chart.plain_manifests
	$(BIN)/python -m tests.kubernetes.chart.dashboards

# What a release consists of, in dist/: wheels (interpreted and compiled), chart, SBOM of the Python packages and checksums
# of the commit, which must have the tag of its version (v0.1.0).
dist: $(READY)
	$(BIN)/python release/dist.py $(ARGS)

# Pins dependencies again after a change in pyproject.toml; LOCK_ARGS=--upgrade takes the newest versions.
# Run it with Python 3.11: it needs everything that newer versions need, and a little more.
lock: $(READY)
	$(LOCK) --build-deps-for wheel --only-build-deps --output-file requirements-build.lock pyproject.toml
	$(LOCK) --extra kubernetes --output-file requirements.lock pyproject.toml
	$(LOCK) --extra kubernetes --extra compile --extra dev --constraint requirements.lock --constraint requirements-build.lock \
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

# The virtual environment. It is made again when the pinned packages or the project's metadata change.
$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "schedulerd needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.13" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
