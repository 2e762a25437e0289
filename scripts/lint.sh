#!/usr/bin/env bash
# Checks format and style. gofmt and go vet always; golangci-lint and shellcheck only where they
# are installed, and it says so where they are not.
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
if command -v golangci-lint >/dev/null; then
	check golangci-lint run
elif command -v staticcheck >/dev/null; then
	echo "lint: golangci-lint is not installed: .golangci.yml was not checked"
	check staticcheck ./...
else
	echo "lint: golangci-lint is not installed: .golangci.yml was not checked"
fi
if command -v shellcheck >/dev/null; then
	check shellcheck scripts/*.sh bench/*.sh .ci/run
else
	echo "lint: shellcheck is not installed: the scripts were not checked"
fi
exit "$status"
