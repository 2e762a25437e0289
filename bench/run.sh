#!/usr/bin/env bash
# Builds budgetd, budgetctl and the baselines, runs all of them one after the other on private
# servers, and writes a Markdown table with throughput, latency and CPU time per deduction. All rows
# take about 45 minutes. Nothing else should run on the machine.
#
#	bench/run.sh --quick              run each row for a second, to see that everything works
#	bench/run.sh --only store-single  run one row or series (--list names them) and its baselines
#	bench/run.sh --only distance      run the rows whose names begin with distance-
#	bench/run.sh --against COMMIT     run rows of budgetd with another commit's budgetd and budgetctl
#	                                  and with these in turns, three times each: six times as long
#	bench/run.sh --at COMMIT          run all rows with another commit's budgetd and budgetctl
#	bench/run.sh --out table.md       write the table to a file
#
# It needs redis-server and mariadbd (scripts/test-deps.sh).
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")"
PATH=$PATH:/usr/sbin:/sbin # where Debian keeps mariadbd

out=
commit=
arguments=()
while [ $# -gt 0 ]; do
	case $1 in
	--out)
		out=$(realpath -m -- "${2:?--out needs a file}")
		shift
		;;
	--against | --at)
		how=$1
		commit=$(git rev-parse --verify --short "${2:?$1 needs a commit}^{commit}")
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
go build -o "$bin/" ./baseline/...
go build -o "$bin/bench" .

# A commit is loaded by its own budgetctl, which knows the words of its answers.
if [ -n "$commit" ]; then
	mkdir "$bin/source" "$bin/other"
	git -C .. archive "$commit" | tar -x -C "$bin/source"
	(cd "$bin/source" && go build -trimpath -o "$bin/other/" ./cmd/budgetd ./cmd/budgetctl)
	rm -rf -- "$bin/source"
	arguments+=("$how" "$commit" -other "$bin/other")
fi

# Ignore the user's configuration.
unset "${!BUDGETD_@}" "${!BUDGETCTL_@}"
"$bin/bench" -bin "$bin" ${out:+-out "$out"} ${arguments[@]+"${arguments[@]}"}
