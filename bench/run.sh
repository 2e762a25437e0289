#!/usr/bin/env bash
# Builds budgetd, budgetctl and the baselines, runs all of them one after the other on private
# servers, and writes a Markdown table with throughput, latency and CPU time per deduction. All rows
# take about 25 minutes. Nothing else should run on the machine.
#
#	bench/run.sh --quick              run each row for a second, to see that everything works
#	bench/run.sh --only store-single  run one row or series (--list names them) and its baselines
#	bench/run.sh --out table.md       write the table to a file
#
# It needs redis-server and mariadbd (scripts/test-deps.sh).
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")"
PATH=$PATH:/usr/sbin:/sbin # where Debian keeps mariadbd

out=
arguments=()
while [ $# -gt 0 ]; do
	case $1 in
	--out)
		out=$(realpath -m -- "${2:?--out needs a file}")
		shift
		;;
	*) arguments+=("$1") ;;
	esac
	shift
done

bin=$(mktemp -d "${TMPDIR:-/tmp}/budgetd-bench-bin.XXXXXX")
trap 'rm -rf -- "$bin"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

export CGO_ENABLED=0
(cd .. && go build -o "$bin/" ./cmd/budgetd ./cmd/budgetctl)
go build -o "$bin/" ./baseline/... ./raw
go build -o "$bin/bench" .

# Ignore the user's configuration.
unset "${!BUDGETD_@}" "${!BUDGETCTL_@}"
"$bin/bench" -bin "$bin" ${out:+-out "$out"} ${arguments[@]+"${arguments[@]}"}
