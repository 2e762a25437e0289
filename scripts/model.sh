#!/usr/bin/env bash
# Explores the model of the protocol (package model) in configurations that are too large for the tests.
# Prints states, transitions, depth and time of each; ends at the first violation.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go=${GO:-go}
binary=$(mktemp "${TMPDIR:-/tmp}/budgetd-model.XXXXXX")
trap 'rm -f -- "$binary"' EXIT
"$go" build -o "$binary" ./model

explore() {
	echo "model $*"
	"$binary" "$@"
}

explore -mode ledger
explore -mode ledger -ids 3 -amounts 221 -limit -kinds restart,down
explore -mode ledger -epochs 2 -log 4 -append -shrink -faults 0
explore -mode ledger -buckets 1 -ids 1 -amounts 1 -attempts 2 -log 6
explore -mode ledger -buckets 1 -log 5 -faults 2
explore -mode store
explore -mode store -buckets 2 -epochs 1 -log 4 -nodes 1
