#!/usr/bin/env bash
# Makes sure that the programs that tests start are installed: redis-server, mariadbd, Chromium for
# the console, Python 3.11 and Node 20 (or later) with the modules of examples/{typescript,gates},
# sdk/typescript and the console, a JDK of version 17 (or later), prometheus with promtool, openssl,
# systemd-analyze, curl, and a C compiler for the race detector. As root on Debian it installs what
# is missing, without starting a service. Otherwise it prints the command to run. It changes nothing
# if nothing is missing.
#
#	scripts/test-deps.sh         everything
#	scripts/test-deps.sh --demo  only what scripts/demo-cluster.sh starts
set -eu

"$(dirname "$0")/need-go.sh"
PATH=$PATH:/usr/sbin:/sbin # where Debian keeps mariadbd
policy=/usr/sbin/policy-rc.d
demo=no
if [ "${1-}" = --demo ]; then
	demo=yes
fi
mark='made by scripts/test-deps.sh of budgetd'

# compiles reports whether a C program with a standard header can be compiled.
compiles() {
	local compiler
	compiler=$(go env CC)
	printf '#include <stdlib.h>\n' | ${compiler:-gcc} -x c -fsyntax-only - 2>/dev/null
}

is_new_node() { node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; }

# is_new_jdk reports whether there is a javac that can compile for Java 17, and a java.
is_new_jdk() { java -version >/dev/null 2>&1 && javac --release 17 -version >/dev/null 2>&1; }

missing() {
	command -v redis-server >/dev/null || printf 'redis-server '
	{ command -v mariadbd && command -v mariadb-install-db; } >/dev/null ||
		printf 'mariadb-server '
	{ command -v prometheus && command -v promtool; } >/dev/null || printf 'prometheus '
	command -v openssl >/dev/null || printf 'openssl '
	if [ "$demo" = yes ]; then
		return
	fi
	command -v curl >/dev/null || printf 'curl '
	command -v chromium >/dev/null || printf 'chromium fonts-dejavu-core '
	command -v npm >/dev/null || printf 'nodejs npm '
	is_new_node || printf 'nodejs '
	python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || printf 'python3 '
	is_new_jdk || printf 'default-jdk-headless '
	command -v systemd-analyze >/dev/null || printf 'systemd '
	command -v shellcheck >/dev/null || printf 'shellcheck '
	compiles || printf 'gcc libc6-dev '
}

# modules installs the modules of the TypeScript example, of the client and of the console, which
# only tests and the build of the console need, in the versions of their lock files.
modules() {
	if [ "$demo" = yes ]; then
		return
	fi
	local dir
	for dir in "$(dirname "$0")"/../{examples/typescript,examples/gates,sdk/typescript,internal/console/web}; do
		[ "$dir/node_modules/.package-lock.json" -nt "$dir/package-lock.json" ] ||
			npm ci --prefix "$dir" --no-audit --no-fund --loglevel=error
	done
}

# manual prints what to do by hand, and exits.
manual() {
	printf '%s\n' "$1" "Install them with this command, as root:" \
		"    apt-get install --no-install-recommends ${packages[*]}" >&2
	exit 1
}

# deny_services keeps the scripts of packages from starting services in the way that Debian provides:
# with a policy-rc.d that answers 101 ("not allowed") to every question. An existing policy stays and
# must give that answer itself.
deny_services() {
	if [ -e "$policy" ] && ! grep -qF "$mark" "$policy"; then
		local answer=0
		"$policy" redis-server start >/dev/null 2>&1 </dev/null || answer=$?
		[ "$answer" = 101 ] ||
			manual "$policy lets packages start their services, which a test must not do."
		return
	fi
	trap 'rm -f "$policy"' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	printf '#!/bin/sh\n# %s; removed when it is done\nexit 101\n' "$mark" >"$policy"
	chmod 755 "$policy"
}

read -r -a packages <<<"$(missing)"
[ "${#packages[@]}" -gt 0 ] || { modules; exit; }

command -v apt-get >/dev/null || manual "This needs ${packages[*]} (names of Debian packages)."
[ "$(id -u)" = 0 ] || manual "This needs ${packages[*]}, and only root can install packages."

# One installation at a time on this machine; the lock leaves no file behind.
exec 9</usr/sbin
flock --wait 900 9 || manual "Another installation has been running for 15 minutes."
deny_services

echo "test-deps: installing ${packages[*]}; no service is started"
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
apt=(apt-get -o "DPkg::Lock::Timeout=300" -q -y --no-install-recommends)
"${apt[@]}" update </dev/null 9<&-
"${apt[@]}" install "${packages[@]}" </dev/null 9<&-
hash -r
if [ "$demo" = no ] && ! is_new_node; then # Debian 12 has Node 18; npm has others
	npm install --global --no-audit --no-fund --loglevel=error node@22 </dev/null 9<&-
	hash -r
fi

read -r -a packages <<<"$(missing)"
[ "${#packages[@]}" = 0 ] || manual "${packages[*]} still missing after the installation."
modules
