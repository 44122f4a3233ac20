# `make` lists the targets. Python packages go to .venv, jars to ~/.cache/balancewatch.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests that share a server stay in one process, and the longest of these groups begin first (tests/conftest.py). Three
# processes on two cores: one mostly waits for RocketMQ.
PYTEST = $(BIN)/python -m pytest --dist loadgroup --no-loadscope-reorder
.DEFAULT_GOAL := help
# pip installs the versions and SHA-256 of the lock files. LOCKED=no installs the same versions without hashes, for an
# index that builds its packages itself.
LOCKED := yes
lock_yes = --require-hashes -r $(1)
lock_no = -r <(grep -oE '^[^ \#]+==[^ ]+( ;[^\]*)?' $(1))
PIP = $(BIN)/pip install --disable-pip-version-check --progress-bar on --no-deps --no-build-isolation
SHOWN := awk '/^(Collecting|Installing|Successfully)/ { print substr($$0, 1, 100); fflush() }'
unexport PYTHONDONTWRITEBYTECODE # otherwise each test process rewrites every assertion again

# Rooms whose tests need Delta tables, a browser or a server.
ROOMS_LEFT_OUT := assistant board lab/chaos check history maintenance manual lab/oracle quality replay service store whatif

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

ifndef IS_LOCKED # two `make` at once install one after the other
$(VENV)/.run: pyproject.toml requirements.lock
	@mkdir -p $(VENV)
	@flock $(VENV) $(MAKE) --no-print-directory IS_LOCKED=yes $@

$(VENV)/.ready: $(VENV)/.run tests/requirements.lock
	@flock $(VENV) $(MAKE) --no-print-directory IS_LOCKED=yes $@
else
$(VENV)/.run: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than 3.11; set another with make PYTHON=..."; exit 1; }
	@command -v java >/dev/null || { echo "error: no java on the PATH; install a JDK 17"; exit 1; }
	@echo "installing Python packages into $(VENV) (once, 1 to 3 minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) $(call lock_$(LOCKED),conf/deploy/build.lock) | $(SHOWN)
	@$(PIP) $(call lock_$(LOCKED),requirements.lock) | $(SHOWN)
	@$(PIP) -e . | $(SHOWN)
	@touch $@

$(VENV)/.ready: $(VENV)/.run tests/requirements.lock
	@echo "installing what the tests need"
	@$(PIP) $(call lock_$(LOCKED),tests/requirements.lock) | $(SHOWN)
	@touch $@
endif

setup: $(VENV)/.ready ## install the packages and jars of all commands, and record the classes of their JVMs
	@$(BIN)/python -m streaming.spark.jars spark kafka rocketmq
	@$(BIN)/python -m tests.support.class_archives

packages: ## as root: Debian's packages for the tests, Prometheus, Alertmanager and, if there is none, Chromium
	@apt-get update -qq
	@apt-get install -y -qq --no-install-recommends prometheus prometheus-alertmanager openssl \
	    $$(command -v chromium >/dev/null || echo chromium fonts-dejavu-core)

demo: $(VENV)/.run ## run the demo until Ctrl-C; ARGS="--seconds 90" limits it
	@$(BIN)/python -m streaming.spark.jars spark kafka
	@$(BIN)/balancewatch demo $(ARGS)

jars: setup
	@$(BIN)/python -m streaming.spark.jars client-4.7.1 client-4.9.8 grpc-client proxy server-4.9.7

LOCK = $(BIN)/uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-header --no-annotate \
    --override <(echo pyspark==4.2.1) $(ARGS)
lock: $(VENV)/.ready ## rewrite the lock files from pyproject.toml: every package for Python 3.11+, with SHA-256
	@$(LOCK) --extra run --extra delta --extra dev -o tests/requirements.lock pyproject.toml
	@$(LOCK) --extra run --extra delta --constraint tests/requirements.lock -o requirements.lock pyproject.toml
	@$(LOCK) --group build -o conf/deploy/build.lock

pins: $(VENV)/.ready ## rewrite conf/jars.sha256 after a change of conf/ivy.xml
	@$(BIN)/python -m streaming.spark.jars --pin

test: jars ## all tests, on a real Kafka, RocketMQ and Alertmanager (7 to 20 minutes on two cores)
	@$(PYTEST) -n 3 $(ARGS)

test-fast: $(VENV)/.ready ## the rules and contracts, without a JVM (half a minute)
	@HYPOTHESIS_PROFILE=fast $(PYTEST) -n 2 --dist worksteal -q $(ROOMS_LEFT_OUT:%=--ignore=tests/%) \
	    -m "not spark and not real and not replay and not proof" $(ARGS)

watch: $(VENV)/.ready ## test-fast after each change of a file; ARGS="tests/udfs" for one room
	@$(BIN)/watchfiles --filter python 'make test-fast ARGS="$(ARGS)"' udfs schemas conf streaming tests

hooks: $(VENV)/.ready ## install git hooks: lint before a commit, test-fast before a push
	@$(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push

proof: jars ## slow tests: clients of three releases, a Spark cluster, more seeds (40 minutes)
	@$(PYTEST) -n 2 -m proof $(ARGS)

oracle: jars ## a million cases against the classes of three RocketMQ releases (4 minutes); ORACLE_SEED=7
	@ORACLE_CASES=$${ORACLE_CASES:-10} $(BIN)/python -m pytest tests/lab/oracle $(ARGS)

lint: $(VENV)/.ready ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/.ready ## format the code with ruff
	@$(BIN)/ruff check --fix -q . ; $(BIN)/ruff format .

bench: setup ## throughput, latency, CPU, memory, rivals, history and board (2 hours)
	@$(BIN)/python -m tests.lab.bench $(ARGS)

soak: setup ## three hours of plain, quiet and busy load, first tenth against last; ARGS="--minutes 10"
	@$(BIN)/python -m tests.lab.bench.soak $(ARGS)

score: $(VENV)/.ready ## the rules on simulated scenarios, against ground truth (5 to 25 minutes)
	@$(BIN)/python -m tests.lab.score $(ARGS)

chaos: setup ## kill -9 at every point and at random, full disk (25 min)
	@$(BIN)/python -m tests.lab.chaos $(ARGS)

storm: setup ## the complete alert path under drawn faults, against the truth (an hour); ARGS="--hours 2 --seed 7"
	@$(BIN)/python -m tests.lab.storm $(ARGS)

field: jars ## a real RocketMQ with injected faults, against its clients' logs (2 hours); ARGS="--only frozen"
	@$(BIN)/python -m tests.lab.field $(ARGS)

docs: $(VENV)/.ready ## rewrite the generated tables of the pages
	@$(BIN)/python -m tests.manual

phrases: $(VENV)/.ready ## collect new texts of alerts and the board for translation, in conf/locale
	@$(BIN)/python -m tests.manual.phrases

pictures: $(VENV)/.ready ## pictures of every page of the board, light, dark and phone, in .bench/pictures
	@$(BIN)/python -m tests.board.pictures $(ARGS)

clean: ## delete the files of demo, bench, score, storm and field
	@rm -rf .demo .bench .kafka .score .oracle .field .storm

.PHONY: help setup packages jars lock pins demo test test-fast watch hooks proof oracle lint format bench soak score
.PHONY: chaos storm field docs phrases pictures clean
