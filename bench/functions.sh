#!/usr/bin/env bash
# Runs the Go benchmarks of the hot functions, allocations included, and compares them with benchstat. Those of the
# stores need redis-server and mariadbd (scripts/test-deps.sh).
#
#	bench/functions.sh              this tree, ten times (about ten minutes)
#	bench/functions.sh COMMIT       the same of another commit beside it, in turns: what changed since?
#	COUNT=3 bench/functions.sh      fewer times
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

count=${COUNT:-10}
functions=(./ring ./ledger ./limit ./internal/httpapi/strictjson ./internal/httpapi ./client ./bucket
	./cmd/budgetctl/bench ./internal/redisstore ./internal/sqlstore)
names='^Benchmark(Hash|Locate|LocateIndexWithout|Dimensions|Line|Fingerprint|Drain|Judge|Read|Deduct|Batch|Served|DeductBatch|DeductCoalesced|Batcher|Queue|Caller|Cost|Commit)$'

work=$(mktemp -d "${TMPDIR:-/tmp}/budgetd-functions.XXXXXX")
finish() {
	git worktree remove --force "$work/before" 2>/dev/null || true
	rm -rf -- "$work"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# run TREE FILE adds one run of every benchmark of a tree to a file.
run() {
	(cd "$1" && go test -run '^$' -bench "$names" -benchmem -benchtime 300ms "${present[@]}") | { grep -v '^ok' || true; } >>"$2"
}

trees=(.)
present=("${functions[@]}")
if [ $# -gt 0 ]; then
	git worktree add --quiet --detach "$work/before" "$1"
	trees=("$work/before" .)
	present=()
	for folder in "${functions[@]}"; do
		if [ -d "$work/before/$folder" ]; then present+=("$folder"); fi
	done
fi
for ((i = 0; i < count; i++)); do
	for tree in "${trees[@]}"; do
		run "$tree" "$work/$([ "$tree" = . ] && echo now || echo before).txt"
	done
done
files=()
for name in before now; do
	if [ -e "$work/$name.txt" ]; then files+=("$name=$work/$name.txt"); fi
done
cd bench
go tool benchstat "${files[@]}"
