#!/usr/bin/env bash
# Runs the long forms of the proofs one after the other, and ends with a table of times and results.
# All proofs together take about three hours on two cores. With BUDGETD_PROOF=nightly they search
# further, for hours. "make test" runs the short forms.
#
#	scripts/proof.sh            runs all proofs
#	scripts/proof.sh NAME...    runs the named proofs
#	scripts/proof.sh --list     lists the proofs
#	scripts/proof.sh --not-run  lists them for the end of a run that left them out
#
# The output of every proof is kept in a folder, which the last line names.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
shopt -s inherit_errexit

# The list of proofs: name, duration, what it does. A proof is the function with its name, with _
# for -.
proofs='
model        7 minutes   explores every configuration of both models of the protocol
mutants      40 minutes  takes each safeguard out, and checks that a named test fails
crashpoints  12 minutes  stops a node, or loses a reply, at every step of every verb
properties   20 minutes  many random runs of every property, on SQLite and MariaDB
wild         10 minutes  stores that answer at random, late, twice or not at all
fuzz         10 minutes  every fuzz target, each for 20 seconds (nightly: a minute)
linearize    13 minutes  histories of each kind of fault against real processes, in each durability
chaos        10 minutes  faults against real processes, in each durability
kills        6 minutes   kills budgetd 100 times in a row under load
versions     7 minutes   an older version beside this one, each taking over from the other, under faults
processes    15 minutes  the end-to-end tests with the race detector in every process
failover     5 minutes   SQL servers that replace each other under load: semi-synchronous replicas, Galera
drill        3 minutes   budgetctl drill: every fault in a sandbox, in each durability, with a verdict
bench-quick  12 minutes  measures budgetd and the baselines for a second or two per row
charts       5 minutes   renders the Helm chart and reads the result with the types of Kubernetes
compose      a minute    checks the compose file with the library of Compose, and the files it uses
publish      10 minutes  goreleaser checks its configuration, once it is compiled
demos        2 minutes   both demos, from nothing to the audit
console      a minute    builds the console again and compares it with what is committed (needs Node)
vulns        a minute    asks the vulnerability database about everything that is linked
'

# pick prints the size of a proof: its first argument, or its second in a nightly run.
pick() {
	if [ "${BUDGETD_PROOF:-}" = nightly ]; then
		echo "$2"
	else
		echo "$1"
	fi
}

model() { go test -timeout 0 ./internal/proof/model -v -model.all; }
mutants() { beside go test -timeout 0 ./internal/proof/mutants -run '^TestMutants' -v -mutants.run .; }
crashpoints() { beside go test -timeout 0 ./internal/proof/crashpoints -v -crashpoints.all; }

properties() {
	local packages
	packages=$(go list -f '{{.Dir}} {{.TestImports}} {{.XTestImports}}' ./... |
		grep -F pgregory.net/rapid | cut -d ' ' -f 1)
	# shellcheck disable=SC2086 # a list
	beside go test -timeout 0 -p 1 $packages github.com/budgetd/budgetd/{api,budget,client} \
		-rapid.checks "$(pick 2000 20000)" -rapid.nofailfile
	beside go test -timeout 0 ./bucket/deduct -run '^TestSourcesReference$' -deduct.steps 10000
	beside go test -timeout 0 ./bucket/hold -run '^TestStreams$' -hold.steps 10000
}

wild() {
	go test -race -timeout 0 ./bucket/counter -run '^TestFaults$' -count "$(pick 10 100)"
}

# fuzz_target fuzzes a target of a folder, which may belong to another module. It runs the target
# again if Go reports the end of its time as an error (golang/go#75804), without a failing input.
fuzz_target() {
	local out tries
	for tries in 1 2 3; do
		echo "fuzz: $2 of $1 ($tries)"
		if out=$(go -C "$1" test . -run '^$' -fuzz "^$2\$" -fuzztime "$(pick 20s 1m)" 2>&1); then
			tail -n 3 <<<"$out"
			return
		fi
		printf '%s\n' "$out"
		[[ $out == *"context deadline exceeded"* && $out != *"Failing input"* ]] || return
	done
	return 1
}

fuzz() {
	local file target status=0
	while IFS=: read -r file target; do
		fuzz_target "$(dirname "$file")" "$target" || status=1
	done < <(git ls-files '*_test.go' | xargs grep -oE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func /:/')
	return "$status"
}

linearize() {
	go test -race -timeout 0 ./internal/proof/chaos -run '^TestLinearizable$' -v \
		-linearize.kinds all -linearize.histories "$(pick 10 200)" -chaos.durability both
}

# chaos runs for a while in each durability. In a nightly run it runs the whole schedule.
chaos() {
	local durability status=0
	for durability in ledger store; do
		go test -race -timeout 0 ./internal/proof/chaos -run '^TestChaos$' -v \
			-chaos.duration "$(pick 5m -1s)" -chaos.nodes 3 -chaos.durability "$durability" || status=1
	done
	return "$status"
}

kills() {
	go test -race -timeout 0 ./internal/proof/chaos -run '^TestKills$' -v -chaos.kills "$(pick 100 1000)"
}

# versions runs nodes of this version beside those of BUDGETD_OTHER, a commit; by default the first one
# with the same tables.
versions() {
	local other status=0 durability
	other=${BUDGETD_OTHER:-$(git log -1 --format=%H -S"$(grep '^const schemaFormat' \
		internal/sql/engine/migrate.go)" -- internal/sql/engine/migrate.go)}
	echo "versions: this one beside $(git log -1 --format='%h, %s' "$other")"
	git clone --quiet --shared . "$work/source" && git -C "$work/source" checkout --quiet --detach "$other"
	CGO_ENABLED=0 go -C "$work/source" build -o "$work/budgetd" ./cmd/budgetd
	for durability in ledger store; do
		go test -timeout 0 ./internal/proof/chaos -run '^(TestChaos|TestKills)$' -v -chaos.other "$work/budgetd" \
			-chaos.duration "$(pick 1m 1h)" -chaos.kills "$(pick 20 500)" -chaos.nodes 3 \
			-chaos.durability "$durability" || status=1
	done
	return "$status"
}

processes() { beside go test -race -timeout 0 ./internal/proof/e2e; }

# failover needs Galera's library, which comes with Debian's mariadb-server.
failover() {
	go test -race -timeout 0 -tags galera ./internal/proof/e2e -run 'WriterIsReplaced$' -v -count "$(pick 3 50)"
}

drill() {
	make --no-print-directory build && bin/budgetctl drill --rounds "$(pick 3 60)"
}

bench_quick() { bench/run.sh --quick; }
console() { scripts/console.sh --check; }
compose() { go -C deploy/compose/check test -count 1 ./...; }
demos() { scripts/demo.sh && scripts/demo-cluster.sh; }
charts() { go -C deploy/helm/check test -count 1 ./...; }
publish() { go tool -modfile=deploy/goreleaser/go.mod goreleaser check; }
vulns() { go tool -modfile=tools/go.mod govulncheck ./...; }

# beside runs a command with one MariaDB and one Redis, which all its tests share.
beside() {
	go build -o "$work/lend" ./internal/proof/testservers/lend
	mkdir "$work/servers"
	"$work/lend" "$work/servers" "$@"
}

list() { grep . <<<"$proofs"; }

case ${1:-} in
--list)
	list
	exit
	;;
--not-run)
	printf '\nNot run: the long forms of the proofs. "make proof" runs all of them, "make NAME" one:\n\n'
	list
	exit
	;;
esac

if [ $# = 0 ]; then
	mapfile -t names < <(list | cut -d ' ' -f 1)
else
	names=("$@")
fi
for name in "${names[@]}"; do
	list | grep -q "^$name " || {
		echo "proof: there is no $name" >&2
		exit 2
	}
done

scripts/test-deps.sh
logs=$(mktemp -d "${TMPDIR:-/tmp}/budgetd-proof.XXXXXX")
failed=0
table=
for name in "${names[@]}"; do
	printf '\n== %s\n' "$name"
	begin=$SECONDS result=passed
	# A separate shell, because errexit is off within "if" and "||". It removes the files of its proof,
	# also after an interruption: the traps wait until the command that uses them has ended.
	set +e
	(
		set -e
		work=$(mktemp -d "${TMPDIR:-/tmp}/budgetd-work.XXXXXX")
		trap 'rm -rf -- "$work"' EXIT
		trap 'exit 129' HUP
		trap 'exit 130' INT
		trap 'exit 143' TERM
		"${name//-/_}"
	) </dev/null 2>&1 | tee "$logs/$name.log"
	[ "${PIPESTATUS[0]}" = 0 ] || result=FAILED
	set -e
	[ "$result" = passed ] || failed=1
	seconds=$((SECONDS - begin))
	table+=$(printf '%-12s %-8s %2d:%02d:%02d' "$name" "$result" $((seconds / 3600)) \
		$((seconds / 60 % 60)) $((seconds % 60)))$'\n'
done
printf '\n%-12s %-8s %8s\n%s' proof result time "$table"
missing=$(list | cut -d ' ' -f 1 | grep -vxF -f <(printf '%s\n' "${names[@]}") | tr '\n' ' ') || true
[ -z "$missing" ] || echo "not run: $missing"
echo "output: $logs"
exit "$failed"
