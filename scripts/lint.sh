#!/usr/bin/env bash
# Checks format and style with gofmt, go vet and golangci-lint in the version of tools/go.mod, and the
# scripts with shellcheck if it is installed. It also searches tracked files for secrets. With
# --vulnerabilities it searches the modules in use for known vulnerabilities if the database can be
# reached.
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
check go tool -modfile=tools/go.mod golangci-lint run
for module in api budget client bench deploy/release examples; do # modules of their own
	check go -C "$module" vet ./...
	check go -C "$module" tool -modfile="$PWD/tools/go.mod" golangci-lint run
done

# secrets finds text that looks like a key or a password in tracked files. Mark a false match with
# "not a secret" on its line.
secrets() {
	local found
	found=$(git grep -nIE -e 'bdg_[0-9A-Za-z]{10}_[0-9A-Za-z]{40,}' -e '-----BEGIN [A-Z ]*PRIVATE KEY' \
		-e 'AKIA[0-9A-Z]{16}' -e 'gh[pousr]_[0-9A-Za-z]{36}' -e 'xox[abprs]-[0-9A-Za-z-]{10,}' |
		grep -vE 'bdg_0{10}_|not a secret|scripts/lint.sh') || return 0
	printf 'looks like a secret: %s\n' "$found" >&2
	return 1
}
check secrets
# SC2317 reports functions that are called through a variable as unreachable.
if command -v shellcheck >/dev/null; then
	check shellcheck -e SC2317 scripts/*.sh bench/*.sh deploy/*/*.sh .ci/run
else
	echo "lint: shellcheck is not installed: the scripts were not checked"
fi
if [ "${1-}" = --vulnerabilities ]; then
	echo "lint: govulncheck ./..."
	found=0
	go tool -modfile=tools/go.mod govulncheck ./... || found=$?
	case $found in
	0) ;;
	3) status=1 ;; # the documented status for vulnerabilities in called code
	*) echo "lint: govulncheck could not run, see above: vulnerabilities were not checked" ;;
	esac
fi
exit "$status"
