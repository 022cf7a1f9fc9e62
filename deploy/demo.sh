#!/usr/bin/env bash
# Shows the gate at work: sets up what is missing, starts a server on an empty folder, sends a deck of 12 pages through
# it as one run, prints the verdicts, writes a contact sheet, and fails if one verdict is not the one deck.json expects.
#
#   bash deploy/demo.sh          ends everything when it is done
#   bash deploy/demo.sh --keep   leaves the server up and prints its address and a token
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash deploy/setup.sh --run-only
exec .venv/bin/python -m pagegate.deploy.demo "$@"
