#!/usr/bin/env bash
# Print the part of requirements.lock that is needed at run time, with hashes, without test packages.
set -euo pipefail
overrides=$(mktemp)
trap 'rm -f "$overrides"' EXIT
grep -E '^pyspark==' requirements.lock | sed 's/ .*//' > "$overrides" # delta-spark allows only an older one
uv pip compile -q --no-header --no-annotate --universal --python-version 3.11 --override "$overrides" \
    --constraint requirements.lock pyproject.toml | sed 's/ *[;\\].*//' |
  awk 'NR == FNR { wanted[$1] = 1; next }
       /^[a-z0-9]/ { is_wanted = ($1 in wanted) }
       is_wanted' - requirements.lock
