#!/usr/bin/env bash
# Checks format and style: gofmt, go vet, golangci-lint as tools/go.mod pins it, and shellcheck where
# it is installed; it says so where it is not. With --basic, as make test calls it, without
# golangci-lint.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0

# check runs a command and remembers its failure, so that one run shows everything.
check() {
	echo "lint: $*"
	"$@" || status=1
}

echo "lint: gofmt -l ."
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	printf 'not gofmt-ed: %s\n' "$unformatted" >&2
	status=1
fi
check go vet ./...
check go -C bench vet ./... # a module of its own
[ "${1:-}" = --basic ] || check go tool -modfile=tools/go.mod golangci-lint run
# SC2317 takes a function that is called by another name for one that nobody calls.
if command -v shellcheck >/dev/null; then
	check shellcheck -e SC2317 scripts/*.sh bench/*.sh .ci/run
else
	echo "lint: shellcheck is not installed: the scripts were not checked"
fi
exit "$status"
