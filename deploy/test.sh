#!/usr/bin/env bash
# Checks everything, the same here and in CI: setup, ruff, mypy strict, pytest with warnings as errors.
#
#   bash deploy/test.sh                    all of it
#   bash deploy/test.sh tests/unit -k x    arguments go to pytest
#   TEST_PROCESSES=1 bash deploy/test.sh   one test at a time; two by default, since many of them wait
#
# Every step runs even when an earlier one failed, so one run tells all there is to repair.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash deploy/setup.sh || exit 1

# Many tests start processes of ours: each would compile all of it anew.
PYCACHE=$(mktemp -d)
trap 'rm -rf "$PYCACHE"' EXIT
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$PYCACHE"

FAILED=()
step() {
  local name=$1 started=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  if "$@" </dev/null; then
    printf '== %s: good (%s s)\n' "$name" $((SECONDS - started))
  else
    printf '== %s: FAILED (%s s)\n' "$name" $((SECONDS - started))
    FAILED+=("$name")
  fi
}

step "ruff check" .venv/bin/python -m ruff check .
step "ruff format" .venv/bin/python -m ruff format --check .
step "mypy" .venv/bin/python -m mypy
step "pytest" .venv/bin/python -m pytest -n "${TEST_PROCESSES:-2}" --dist loadfile --no-loadscope-reorder "$@"

printf '\n'
if [ "${#FAILED[@]}" -gt 0 ]; then
  printf 'test.sh: FAILED after %s s: %s\n' "$SECONDS" "$(IFS=,; printf '%s' "${FAILED[*]}")"
  exit 1
fi
printf 'test.sh: everything is good (%s s)\n' "$SECONDS"
