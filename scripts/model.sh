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

explore -mode ledger -hold 01 -log 4
explore -mode ledger -hold 01 -undo 01 -limit -attempts 2 -buckets 1 -kinds restart,down
explore -mode store -hold 0 -log 4 -grants 1
explore -mode ledger -turn -lag -hold 0 -epochs 2 -log 4 -grants 1 -faults 0
explore -mode ledger -turn -epochs 2 -log 4 -grants 1 -kinds restart
explore -mode ledger -turn -lag -hold 0 -buckets 1 -epochs 2 -log 4
for unused in total next forfeit; do
	for late in total next forfeit; do
		explore -mode ledger -turn -lag -hold 0 -buckets 1 -epochs 2 -log 4 -kinds restart -unused $unused -late $late
		explore -mode store -turn -lag -hold 0 -ids 1 -amounts 2 -log 4 -grants 1 -kinds restart -unused $unused -late $late
	done
done
explore -mode store -turn -buckets 2 -log 4 -grants 1 -nodes 1 -faults 0
