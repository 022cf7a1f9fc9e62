#!/usr/bin/env bash
# Makes this checkout ready to run: system packages, a Python environment in .venv, the Node packages of the Runtime.
# Safe to run again at any time: what is already there is left alone, and a run that finds nothing missing takes about
# a second. Starts no service and leaves nothing listening.
#
#   bash deploy/setup.sh            everything, what the tests and the benchmark need included
#   bash deploy/setup.sh --run-only only what running pagegate needs (no test servers, no second browser, no linters)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

RUN_ONLY=false
case "${1:-}" in
  "") ;;
  --run-only) RUN_ONLY=true ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac

CHROMIUM=/usr/lib/chromium/chromium-headless-shell
say() { printf 'setup  %s\n' "$*"; }
fail() { printf 'setup  error: %s\n' "$*" >&2; exit 1; }

# ---- system packages --------------------------------------------------------------------------------------------

python_is_enough() { "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null && python_is_enough "$candidate"; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

# Prints, one a line, the wanted Debian packages that are not installed.
missing_packages() {
  local wanted=(chromium-headless-shell bubblewrap util-linux
                fonts-noto-cjk fonts-noto-color-emoji fonts-liberation fonts-dejavu-core)
  if [ "$RUN_ONLY" = false ]; then
    wanted+=(postgresql redis-server chromium) # servers of the tests; the benchmark's opponent
  fi
  if [ ! -x .venv/bin/python ] && ! find_python >/dev/null; then
    wanted+=(python3 python3-venv)
  fi
  dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null |
    awk -v wanted="${wanted[*]}" '
      $2 == "installed" { have[$1] = 1 }
      END { n = split(wanted, names, " "); for (i = 1; i <= n; i++) if (!(names[i] in have)) print names[i] }'
}

# Debian starts PostgreSQL and Redis when they are installed. The tests start their own on free ports, so nothing of the
# machine should begin to listen because of us: a policy refuses the starts while apt works, and is taken away again.
install_packages() {
  local as_root=("$@") install=(apt-get install -y --no-install-recommends) policy=/usr/sbin/policy-rc.d placed=false
  if ! "${as_root[@]}" test -e "$policy"; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
    placed=true
  fi
  local status=0
  {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" -q "${MISSING[@]}"
  } </dev/null >"$APT_LOG" 2>&1 || status=$?
  if [ "$placed" = true ]; then "${as_root[@]}" rm -f "$policy"; fi
  if [ -d /run/systemd/system ]; then
    local service
    for service in postgresql redis-server; do
      case " ${MISSING[*]} " in *" $service "*) "${as_root[@]}" systemctl disable --quiet "$service" || true ;; esac
    done
  fi
  return "$status"
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  mapfile -t MISSING < <(missing_packages)
  if [ "${#MISSING[@]}" -eq 0 ]; then
    say "system packages: all there"
  else
    AS_ROOT=()
    if [ "$(id -u)" -ne 0 ]; then
      if ! { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }; then
        fail "these Debian packages are missing; have them installed, then run this again:
       apt-get install --no-install-recommends ${MISSING[*]}"
      fi
      AS_ROOT=(sudo)
    fi
    say "system packages: installing ${MISSING[*]}"
    APT_LOG=$(mktemp)
    if ! install_packages "${AS_ROOT[@]}"; then
      tail -n 25 "$APT_LOG" >&2
      fail "apt-get could not install them (its last lines are above; all of it is in $APT_LOG)"
    fi
    rm -f "$APT_LOG"
  fi
else
  say "system packages: this is not Debian; needed are bubblewrap or util-linux's unshare, CJK, emoji, Liberation and" \
    "DejaVu fonts, and for the tests PostgreSQL and Redis"
fi
if [ ! -x "${RENDERER_CHROMIUM:-$CHROMIUM}" ]; then
  fail "no Chromium headless shell at ${RENDERER_CHROMIUM:-$CHROMIUM}; set RENDERER_CHROMIUM to where it is"
fi

# ---- Python -----------------------------------------------------------------------------------------------------

if [ ! -x .venv/bin/python ] || ! python_is_enough .venv/bin/python; then
  PYTHON_FOUND=$(find_python) || fail "no Python 3.11 or newer with venv; install it, or set PYTHON to where it is"
  say "python: making .venv with $PYTHON_FOUND"
  "$PYTHON_FOUND" -m venv --clear .venv
fi

EXTRAS=test,bench  # bench: what the benchmarks are held against
if [ "$RUN_ONLY" = true ]; then EXTRAS=""; fi

# The stamp also names the place: an environment that was copied along with its checkout points at the old one.
python_state() { { pwd -P; .venv/bin/python -V; cat pyproject.toml; } | sha256sum | cut -d ' ' -f 1; }

WANTED="$(python_state) $EXTRAS"
HAVE=$(cat .venv/pagegate.stamp 2>/dev/null || true)
if [ "$HAVE" = "$WANTED" ] || [ "$HAVE" = "$(python_state) test,bench" ]; then
  say "python: $(.venv/bin/python -V | cut -d ' ' -f 2), packages as pyproject.toml wants them"
else
  say "python: installing pagegate and its packages into .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".${EXTRAS:+[$EXTRAS]}" </dev/null ||
    fail "pip could not install them (its words are above); is the package index reachable?"
  printf '%s\n' "$WANTED" >.venv/pagegate.stamp
fi

# ---- Node -------------------------------------------------------------------------------------------------------

node_is_enough() {
  "$1" -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null
}

NODE_PATH_PREFIX=""
if command -v node >/dev/null && command -v npm >/dev/null && node_is_enough node; then
  say "node: $(node --version) of the system"
else
  if [ ! -x .venv/bin/node ] || ! node_is_enough .venv/bin/node; then
    say "node: the system has none from 20.19 on; installing one into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[node]' </dev/null ||
      fail "pip could not install Node; install Node 20.19 or newer by other means and run this again"
  fi
  NODE_PATH_PREFIX="$PWD/.venv/bin:"
  say "node: $(.venv/bin/node --version) in .venv"
fi

LOCK_STATE=$(sha256sum runtime/node/package-lock.json | cut -d ' ' -f 1)
NODE_STAMP=runtime/node/node_modules/.pagegate.stamp
if [ "$(cat "$NODE_STAMP" 2>/dev/null || true)" = "$LOCK_STATE" ]; then
  say "node packages: as package-lock.json wants them"
else
  say "node packages: npm ci in runtime/node"
  (cd runtime/node && PATH="$NODE_PATH_PREFIX$PATH" npm_config_update_notifier=false npm ci --no-audit --no-fund --loglevel=error </dev/null) ||
    fail "npm could not install them (its words are above); is the npm registry reachable?"
  printf '%s\n' "$LOCK_STATE" >"$NODE_STAMP"
fi

say "ready"
