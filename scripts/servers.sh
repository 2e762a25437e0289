# shellcheck shell=bash
# Private servers for the demos: sourced by demo.sh and demo-cluster.sh, which run in the
# repository's root. Sourcing it makes $work, a temporary directory, and sees to it that every
# server and that directory are gone when the script ends, interrupted or not.

PATH=$PATH:/usr/sbin:/sbin # where Debian keeps mariadbd
work=
port=       # what free_port found
ports=' '   # every port given out so far
foreground= # process of the command that run waits for
names=()    # the servers, in the order of their start, and their processes
pids=()

# A server must not outlive this shell, not even when that is killed.
guard=()
if command -v setpriv >/dev/null; then
	guard=(setpriv --pdeathsig TERM)
fi

die() {
	printf '%s\n' "$*" >&2
	exit 1
}

title() { printf '\n== %s\n' "$*"; }

# answers says whether somebody listens on a port of 127.0.0.1.
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port sets $port to one that nobody listens on, below the range of source ports.
free_port() {
	for _ in {1..100}; do
		port=$((20000 + RANDOM % 12000))
		if [[ $ports != *" $port "* ]] && ! answers "$port"; then
			ports+="$port "
			return
		fi
	done
	die "no free port found"
}

# start NAME COMMAND... runs a server in the background, in $work, its output in $work/NAME.log.
start() {
	local name=$1
	shift
	(cd "$work" && exec "${guard[@]}" "$@") >"$work/$name.log" 2>&1 </dev/null &
	names+=("$name")
	pids+=("$!")
}

# await COMMAND... waits up to a minute until the command succeeds, and no longer than the server
# started last lives.
await() {
	local name=${names[-1]}
	for _ in {1..300}; do
		kill -0 "${pids[-1]}" 2>/dev/null || die "$name ended while starting"
		if "$@" >/dev/null 2>&1; then
			return
		fi
		sleep 0.2
	done
	die "$name is not ready after a minute"
}

# ready PORT says whether the budgetd on a port is ready; a fresh machine has no curl.
ready() (
	status=
	{ exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || exit 1
	printf 'GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' >&3
	IFS= read -r -t 5 status <&3 || true
	[[ $status == 'HTTP/1.1 200'* ]]
)

# run COMMAND... shows a command and runs it. A signal to this script ends it too.
run() {
	printf '\n$ %s\n' "${*/#bin\//}"
	"$@" </dev/null &
	foreground=$!
	wait "$foreground"
	foreground=
}

# stop_all stops the servers, the last started first; it fails when one did not end with 0.
stop_all() {
	local i status failed=0
	for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
		kill -TERM "${pids[i]}" 2>/dev/null || true
		for _ in {1..300}; do
			kill -0 "${pids[i]}" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL "${pids[i]}" 2>/dev/null || true
		status=0
		wait "${pids[i]}" 2>/dev/null || status=$?
		if [ "$status" != 0 ]; then
			echo "${names[i]} ended with status $status" >&2
			failed=1
		fi
	done
	names=()
	pids=()
	return "$failed"
}

finish() {
	local status=$?
	trap - EXIT
	trap '' HUP INT TERM
	if [ -n "$foreground" ]; then
		kill -TERM "$foreground" 2>/dev/null || true
	fi
	if [ "$status" != 0 ] && [ "$status" -lt 128 ]; then
		local name
		for name in "${names[@]}"; do
			printf '\n-- last lines of %s\n' "$name" >&2
			tail -n 20 "$work/$name.log" >&2
		done
	fi
	if [ "$status" -lt 128 ]; then
		stop_all || true
	else # a signal to all of them: how they ended says nothing
		stop_all 2>/dev/null || true
	fi
	if [ -n "$work" ]; then
		rm -rf -- "$work"
	fi
	exit "$status"
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

work=$(mktemp -d "${TMPDIR:-/tmp}/budgetd-demo.XXXXXX")

# What the user has configured is not for the demo.
unset "${!BUDGETD_@}" "${!BUDGETCTL_@}"
