# shellcheck shell=bash
# Private servers for the demos. demo.sh and demo-cluster.sh source this file in the root of the
# repository. It creates $work, a temporary directory, and removes it and stops every server when
# the script ends, even if the script is interrupted.

PATH=$PATH:/usr/sbin:/sbin # where Debian keeps mariadbd
work=
port=       # what free_port found
ports=' '   # every port given out so far
foreground= # process of the command that run waits for
names=()    # the servers, in the order of their start, and their processes
pids=()

# A server must not outlive this shell, even if the shell is killed.
guard=()
if command -v setpriv >/dev/null; then
	guard=(setpriv --pdeathsig TERM)
fi

die() {
	printf '%s\n' "$*" >&2
	exit 1
}

title() { printf '\n== %s\n' "$*"; }

# answers reports whether a process listens on a port of 127.0.0.1.
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port sets $port to an unused port below the range of source ports.
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

# start NAME COMMAND... runs a server in the background in $work and writes its output to
# $work/NAME.log.
start() {
	local name=$1
	shift
	(cd "$work" && exec "${guard[@]}" "$@") >"$work/$name.log" 2>&1 </dev/null &
	names+=("$name")
	pids+=("$!")
}

# await COMMAND... waits until the command succeeds. It fails after a minute, or when the server that
# was started last ends.
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

# ready PORT reports whether the budgetd on a port is ready. It does not need curl, which a fresh
# machine may lack.
ready() (
	status=
	{ exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || exit 1
	printf 'GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' >&3
	IFS= read -r -t 5 status <&3 || true
	[[ $status == 'HTTP/1.1 200'* ]]
)

# run COMMAND... prints and runs a command. A signal to this script ends the command too.
run() {
	printf '\n$ %s\n' "${*/#bin\//}"
	"$@" </dev/null &
	foreground=$!
	wait "$foreground"
	foreground=
}

# stop_all stops the servers, the last started first. It fails if one did not end with status 0.
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
	else # a signal also ended the servers, so their exit statuses mean nothing
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

# The demo ignores the user's configuration.
unset "${!BUDGETD_@}" "${!BUDGETCTL_@}"
