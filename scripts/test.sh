#!/usr/bin/env bash
# Runs the linters, then the tests of all modules. One MariaDB and one Redis serve all tests
# (internal/proof/testservers/lend). The end-to-end tests, which mostly wait, run concurrently with the
# others. The script installs what the tests need (scripts/test-deps.sh), and ends with what each
# package took and with a list of what it did not run.
#
#	scripts/test.sh            runs everything
#	scripts/test.sh PACKAGE... runs the tests of these packages, such as ./bucket/...
#
# All files are in two temporary directories: those of tests and servers in memory if there is room,
# those that Go builds on disk. Both are removed at the end, even after an interruption.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The packages whose tests run under the race detector, because their code is concurrent. The race
# detector makes a test several times as expensive. In other packages one goroutine runs at a time,
# or (chaos, e2e) the tests are about processes; scripts/proof.sh runs those under the race detector.
concurrent='^(auditlog|bucket|internal/(sql|redisstore|httpapi|daemon|ratelimit|auth))(/|$)'

# The longest tests start first, so that none of them runs alone at the end. The end-to-end tests
# take longest and mostly wait, so they run concurrently with all others.
first='^(bucket/(audit|transfer)|internal/(proof/(chaos|crashpoints)|console|daemon|httpapi|sql/commit|redisstore))$'
waiting='^internal/proof/e2e$'

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
	# A server that is being killed may still add a file, so try again.
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

# memory prints a folder for temporary files: /dev/shm if 6 GiB are free there.
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

# timed runs go test and keeps what it prints, for durations.
timed() { go test "$@" | tee -a "$build/tests.log"; }

# durations prints the seconds that the tests of each package took, the slowest first.
durations() {
	[ -s "$build/tests.log" ] || return 0
	printf '\n%8s  %s\n' seconds package
	awk '($1 == "ok" || $1 == "FAIL") && $3 ~ /^[0-9.]+s$/ { printf "%8.1f  %s\n", $3, $2 }' \
		"$build/tests.log" | sort -rn
}

# tests runs go test on the packages of this module whose folders are on standard input. Most tests
# wait now and then, so one package more than there are processors is tested at a time.
tests() {
	local packages=()
	mapfile -t packages
	[ "${#packages[@]}" = 0 ] && return
	timed -timeout 20m -p $(($(nproc) + 1)) "$@" "${packages[@]/#/./}"
}

# modules runs the tests of the separate modules. internal/proof/e2e builds and runs the one of examples.
modules() {
	local status=0
	timed -C budget ./... || status=1
	timed -C client -race ./... || status=1
	timed -C bench ./... || status=1
	timed -C deploy/release -timeout 20m ./... || status=1
	return "$status"
}

# folders prints the folders of the requested packages, those with the longest tests first.
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
	{
		local waited=0
		{ grep -E "$waiting" "$build/all" || true; } | tests || waited=1
		[ -z "$all" ] || modules || waited=1
		exit "$waited"
	} >"$build/waiting.log" 2>&1 &
	grep -E "$concurrent" "$build/all" >"$build/racing" || true
	{ grep -vxFf "$build/racing" "$build/all" | grep -vE "$waiting" || true; } | tests || status=1
	tests -race <"$build/racing" || status=1
	wait $! || status=1
	cat "$build/waiting.log"
	return "$status"
}

# A process group of its own, so that all of it can be ended: go test does not pass SIGTERM on.
set -m
(
	all=
	if [ $# = 0 ]; then
		scripts/lint.sh
		export GOFLAGS="${GOFLAGS-} -vet=off" # scripts/lint.sh has run it
		all=yes
		set ./...
	fi
	mkdir "$build/programs"
	go build -o "$build/programs" ./cmd/budgetd ./cmd/budgetctl ./internal/proof/testservers/lend
	export -f timed tests modules folders everything
	export all build concurrent first waiting BUDGETD_TEST_PROGRAMS=$build/programs
	# shellcheck disable=SC2016 # the inner shell expands it
	exec "$build/programs/lend" "$work/servers" bash -euo pipefail -c 'everything "$@"' tests "$@"
) </dev/null &
group=$!
status=0
wait "$group" || status=$?
group=
durations
if [ $# = 0 ]; then
	scripts/proof.sh --not-run
fi
exit "$status"
