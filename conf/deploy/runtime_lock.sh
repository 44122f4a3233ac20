#!/usr/bin/env bash
# Of requirements.lock the packages that the project needs to run, with their hashes: without those of the tests.
set -euo pipefail
overrides=$(mktemp)
trap 'rm -f "$overrides"' EXIT
grep -E '^pyspark==' requirements.lock | sed 's/ .*//' > "$overrides" # delta-spark names an older one as the newest
uv pip compile -q --no-header --no-annotate --universal --python-version 3.11 --override "$overrides" \
    --constraint requirements.lock pyproject.toml | sed 's/ *[;\\].*//' |
  awk 'NR == FNR { wanted[$1] = 1; next }
       /^[a-z0-9]/ { is_wanted = ($1 in wanted) }
       is_wanted' - requirements.lock
