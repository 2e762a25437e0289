#!/usr/bin/env bash
# Runs everything: the servers the tests need, go vet, and every test with the race detector.
# Whatever is written lies in one temporary directory, which goes at the end, interrupted or not.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/test-deps.sh

work=
group=
finish() {
	local status=$?
	trap - EXIT
	trap '' HUP INT TERM
	if [ -n "$group" ] && kill -TERM -- "-$group" 2>/dev/null; then
		for _ in {1..100}; do
			kill -0 -- "-$group" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL -- "-$group" 2>/dev/null || true
	fi
	# A server that is just being killed may still add a file: look again.
	for _ in {1..100}; do
		{ [ -n "$work" ] && [ -e "$work" ]; } || break
		rm -rf -- "$work" 2>/dev/null || sleep 0.1
	done
	exit "$status"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

work=$(mktemp -d "${TMPDIR:-/tmp}/budgetd-test.XXXXXX")
export TMPDIR=$work BUDGETD_TEST_TMP=$work CGO_ENABLED=1

# A process group of its own, so that all of it can be ended: go test passes no SIGTERM on.
set -m
(
	go vet ./...
	# The models keep everything in memory, where the race detector makes collecting garbage dear.
	export GOGC=400
	# Two packages at a time: each may run servers of its own, and two cores are the yardstick. The
	# longest go first, so that none of them is left to run alone at the end.
	go test -race -timeout 30m -p 2 ./internal/storetest ./bucket ./internal/sqlstore ./...
	cd bench # a module of its own
	go vet ./...
	go test -race ./...
) </dev/null &
group=$!
wait "$group"
