# `make` lists the targets. Everything lives in .venv; the JVM's jars in the user's cache.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests that share a server stay together: three processes, for RocketMQ's clocks are mostly waited for.
PYTEST = $(BIN)/python -m pytest --dist loadgroup
.DEFAULT_GOAL := help
# What pip installs is what requirements.lock names, by version and SHA-256; LOCKED=no takes what the index has, for one
# that builds packages of its own.
LOCKED := yes
PIP = $(BIN)/pip install --disable-pip-version-check --progress-bar on
SHOWN := awk '/^(Collecting|Installing|Successfully)/ { print substr($$0, 1, 100); fflush() }'
UV := uv==0.13.9
unexport PYTHONDONTWRITEBYTECODE # or each process of the tests rewrites every assertion anew

# Their tests ask Delta tables, a browser or a server, nearly all of them.
ROOMS_LEFT_OUT := board chaos check history maintenance manual oracle quality replay service store whatif

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.ready: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than 3.11; give another with make PYTHON=..."; exit 1; }
	@command -v java >/dev/null || { echo "error: no java on the PATH; install a JDK 17"; exit 1; }
	@echo "setting up: the virtual environment and its packages (once, 1 to 3 minutes)"
	@$(PYTHON) -m venv $(VENV)
ifeq ($(LOCKED),no)
	@grep -oE '^[^ #]+==[^ ]+( ;[^\]*)?' requirements.lock > $(VENV)/names.lock
	@$(PIP) --no-deps -r $(VENV)/names.lock | $(SHOWN)
	@$(PIP) --no-deps -e . | $(SHOWN)
else
	@sed -n '/^setuptools==/,/[^\\]$$/p' requirements.lock > $(VENV)/build.lock
	@$(PIP) --require-hashes -r $(VENV)/build.lock | $(SHOWN)
	@$(PIP) --require-hashes --no-deps --no-build-isolation -r requirements.lock | $(SHOWN)
	@$(PIP) --no-deps --no-build-isolation -e . | $(SHOWN)
endif
	@touch $@

setup: $(VENV)/.ready ## virtual environment, packages, and the jars of the demo
	@$(BIN)/python -m streaming.spark.jars spark kafka

demo: setup ## the main job on the embedded default; ARGS="--seconds 90" ends it by itself
	@$(BIN)/balancewatch demo $(ARGS)

jars: setup
	@$(BIN)/python -m streaming.spark.jars rocketmq client-4.7.1 client-4.9.8 grpc-client proxy server-4.9.7

lock: ## requirements.lock anew, from pyproject.toml: every package for Python 3.11 on, with the SHA-256 of its files
	@$(PYTHON) -m venv .lock && .lock/bin/pip install --disable-pip-version-check -q $(UV)
	@echo 'pyspark==4.2.1' > .lock/overrides # delta-spark 4.4.0 names 4.2.0 as the newest, and works with it
	@.lock/bin/uv pip compile -q --override .lock/overrides --universal --generate-hashes --python-version 3.11 --extra dev --no-header --no-annotate \
	    $(ARGS) -o requirements.lock pyproject.toml; rm -rf .lock

pins: $(VENV)/.ready ## conf/jars.sha256 anew, after conf/ivy.xml was changed
	@$(BIN)/python -m streaming.spark.jars --pin

test: jars ## all tests, real Kafka, RocketMQ and Alertmanager included (10 to 12 minutes)
	@$(PYTEST) -n 3 $(ARGS)

test-fast: $(VENV)/.ready ## before a commit: the rules and contracts, half a minute, no JVM
	@HYPOTHESIS_PROFILE=fast $(PYTEST) -n 2 --dist worksteal -q $(ROOMS_LEFT_OUT:%=--ignore=tests/%) \
	    -m "not spark and not real and not replay and not proof" $(ARGS)

watch: $(VENV)/.ready ## test-fast after each change of a file, until Ctrl-C; ARGS="tests/udfs" for one room
	@$(BIN)/watchfiles --filter python 'make test-fast ARGS="$(ARGS)"' udfs schemas conf streaming tests

hooks: $(VENV)/.ready ## git's hooks: lint before a commit, test-fast before a push
	@$(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push

proof: jars ## what is slow by nature: RocketMQ on its own clocks, a Spark cluster, second seeds
	@$(PYTEST) -n 2 -m proof $(ARGS)

oracle: jars ## thousands of cases against the classes of three RocketMQ releases; ORACLE_SEED=7 for others
	@ORACLE_CASES=$${ORACLE_CASES:-10} $(BIN)/python -m pytest tests/oracle $(ARGS)

lint: $(VENV)/.ready ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(VENV)/.ready ## rewrite the code as ruff formats it
	@$(BIN)/ruff check --fix -q . ; $(BIN)/ruff format .

bench: setup ## throughput, latency, CPU, memory, rivals beside us; the history and the board in Chromium (45 minutes)
	@$(BIN)/python -m tests.bench $(ARGS)
	@test -n "$(ARGS)" || $(BIN)/python -m tests.bench.board
	@test -n "$(ARGS)" || $(BIN)/python -m tests.bench.board_alerts

profile: $(VENV)/.ready ## where the Python of one batch goes; ARGS="--groups 2000 --touched few"
	@$(BIN)/python -m tests.bench.batch_profile $(ARGS)

soak: setup ## does anything grow? An hour of 1,000 events/s, first tenth against last; ARGS="--minutes 10"
	@$(BIN)/python -m tests.bench.soak $(ARGS)

score: $(VENV)/.ready ## every modelled scenario through the rules, held against what is true (5 to 25 minutes)
	@$(BIN)/python -m tests.score $(ARGS)

chaos: setup ## kill -9 at every point and at random, Kafka away, full disk: the history stays equal (half an hour)
	@$(BIN)/python -m tests.chaos $(ARGS)

field: jars ## a real RocketMQ under real trouble, held against what its clients say (two hours); ARGS="--only frozen"
	@$(BIN)/python -m tests.field $(ARGS)

docs: $(VENV)/.ready ## write the generated tables of the README and the other pages anew
	@$(BIN)/python -m streaming.manual
	@$(BIN)/python -m streaming.manual.metrics_page

pictures: $(VENV)/.ready ## a picture of every page of the board, light, dark and on a phone, in .bench/pictures
	@$(BIN)/python -m tests.board.pictures $(ARGS)

clean: ## drop what demo and bench left behind
	@rm -rf .demo .bench .kafka .score .oracle .field

.PHONY: help setup jars lock pins demo test test-fast watch hooks proof oracle lint format bench profile soak score chaos field
.PHONY: docs pictures clean
