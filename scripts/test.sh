#!/usr/bin/env bash
# Runs everything that a change can break: the linters, then the tests of all modules beside one
# MariaDB and one Redis that all of them share (internal/testservers/lend). The end-to-end tests, which
# mostly wait, run beside all others. It installs what the tests need (scripts/test-deps.sh) and ends
# with what it did not run.
#
#	scripts/test.sh            everything
#	scripts/test.sh PACKAGE... tests of these packages only, such as ./bucket/...
#
# Whatever is written lies in two temporary directories, which go at the end, interrupted or not:
# files of tests and servers in memory where that has room, what Go builds on disk.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Only these run under the race detector, which makes a test several times as dear: something is
# concurrent there. Everywhere else one goroutine runs at a time, or (chaos, e2e) the tests are about
# processes; scripts/proof.sh runs those with the race detector in both.
concurrent='^(bucket|trail|internal/(sqlstore|redisstore|memstore|httpapi|daemon|edge|guard))(/|$)'

# The longest go first, so that none of them is left to run alone at the end. The end-to-end tests take
# longest and mostly wait: they run beside all others.
first='^internal/(chaos|crashpoints|console|sqlstore/transfer|sqlstore/commit|redisstore)$'
waiting='^internal/e2e$'

scripts/test-deps.sh

work=
build=
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
	if [ -n "$build" ]; then
		rm -rf -- "$build"
	fi
	exit "$status"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# memory says where files can lie in memory: in /dev/shm, if 6 GiB are free there.
memory() {
	local free
	free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) || free=0
	if [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] && [ "${free:-0}" -gt $((6 << 20)) ]; then
		echo /dev/shm
	else
		echo "${TMPDIR:-/tmp}"
	fi
}

build=$(mktemp -d "${TMPDIR:-/tmp}/budgetd-build.XXXXXX")
work=$(mktemp -d "$(memory)/budgetd-test.XXXXXX")
mkdir "$work/servers" "$work/tests"
export GOTMPDIR=$build TMPDIR=$work/tests BUDGETD_TEST_TMP=$work/tests CGO_ENABLED=1

# tests runs go test on packages of this module (their folders) that are on standard input.
tests() {
	local packages=()
	mapfile -t packages
	[ "${#packages[@]}" = 0 ] && return
	go test -timeout 20m -p "$(nproc)" "$@" "${packages[@]/#/./}"
}

# folders lists the packages asked for by their folders, the longest first.
folders() {
	local module
	module=$(go list -m)
	go list "$@" | sed -e "s|^$module/||" -e "s|^$module\$|.|" | sort >"$build/folders"
	grep -E "$first" "$build/folders" || true
	grep -vE "$first" "$build/folders" || true
}

everything() {
	local status=0
	folders "$@" >"$build/all"
	{ grep -E "$waiting" "$build/all" || true; } | tests >"$build/waiting.log" 2>&1 &
	{ grep -vE "$concurrent|$waiting" "$build/all" || true; } | tests || status=1
	{ grep -E "$concurrent" "$build/all" || true; } | tests -race || status=1
	wait $! || status=1
	cat "$build/waiting.log"
	return "$status"
}

# A process group of its own, so that all of it can be ended: go test passes no SIGTERM on.
set -m
(
	if [ $# = 0 ]; then
		scripts/lint.sh
	fi
	mkdir "$build/programs"
	go build -o "$build/programs" ./cmd/budgetd ./cmd/budgetctl ./internal/testservers/lend
	export -f tests folders everything
	export build concurrent first waiting BUDGETD_TEST_PROGRAMS=$build/programs
	# shellcheck disable=SC2016 # the inner shell expands it
	exec "$build/programs/lend" "$work/servers" bash -euo pipefail -c '
		[ $# = 0 ] || { everything "$@"; exit; }
		status=0
		everything ./... || status=1
		# modules of their own; internal/e2e builds and runs the one of examples
		(cd budget && go test ./...) || status=1
		(cd client && go test -race ./...) || status=1
		(cd bench && go test ./...) || status=1
		(cd deploy/release && go test ./...) || status=1
		exit "$status"' tests "$@"
) </dev/null &
group=$!
status=0
wait "$group" || status=$?
group=
if [ $# = 0 ]; then
	scripts/proof.sh --not-run
fi
exit "$status"
