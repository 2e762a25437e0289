#!/usr/bin/env bash
# Runs the system of deploy/compose on this machine without a container engine: two budgetd with keys
# and TLS on one MariaDB and three Redis, and Prometheus with our rules, from the same files with private
# ports. It makes a budget in ledger mode, which needs MariaDB alone, and sells it out, which fires an
# alert, and appends, which resolves it. Then it sells from a budget in store mode, whose buckets are on the
# three Redis. It ends with the audits and the console's address. On a terminal it waits for Enter before it stops everything.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/test-deps.sh --demo
# shellcheck source=scripts/servers.sh
. scripts/servers.sh

title "Building"
make --no-print-directory build

title "Making certificates, passwords and the first key"
deploy/compose/secrets.sh "$work/secrets" >/dev/null
chmod 600 "$work"/secrets/* # containers run as other users, the demo does not
secrets=$work/secrets
rules=() # sed expressions that replace the addresses in deploy/compose by those on this machine

# place NAME gives a server of compose.yaml a private port of this machine, in $port.
place() {
	free_port
	rules+=(-e "s/\b$1:[0-9]+/127.0.0.1:$port/")
}

# here FILE prints a file of deploy/compose with the addresses and secrets of this machine.
here() { sed -E "${rules[@]}" -e "s|/run/secrets|$secrets|g" "$1"; }

title "Starting MariaDB and three Redis"
as_root=()
if [ "$(id -u)" = 0 ]; then
	as_root=(--user=root) # mariadbd refuses to run as root unless told to
fi
mariadb-install-db --no-defaults "${as_root[@]}" --datadir="$work/mariadb" \
	--auth-root-authentication-method=normal --skip-name-resolve --skip-test-db \
	>"$work/mariadb-install.log" 2>&1 || die "$(<"$work/mariadb-install.log")"
place mariadb
start mariadb mariadbd --no-defaults "${as_root[@]}" --datadir="$work/mariadb" \
	--bind-address=127.0.0.1 --port="$port" --socket="$work/mariadb.sock" --skip-name-resolve \
	--innodb-flush-log-at-trx-commit=1 --innodb-buffer-pool-size=128M \
	--ssl-ca="$secrets/ca.pem" --ssl-cert="$secrets/server.pem" --ssl-key="$secrets/server.key"
mariadb=(mariadb --no-defaults --user=root --socket="$work/mariadb.sock")
await "${mariadb[@]}" --execute 'SELECT 1'
"${mariadb[@]}" <<SQL
CREATE DATABASE budgetd;
CREATE USER budgetd@'%' IDENTIFIED BY '$(<"$secrets/mariadb-password")' REQUIRE SSL;
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, INDEX ON budgetd.* TO budgetd@'%';
SQL
for name in redis-a redis-b redis-c; do
	place "$name"
	mkdir "$work/$name"
	start "$name" redis-server --bind 127.0.0.1 --dir "$work/$name" --save '' --appendonly yes \
		--appendfsync always --no-appendfsync-on-rewrite no --maxmemory-policy noeviction \
		--aclfile "$secrets/redis-users" --port 0 --tls-port "$port" \
		--tls-cert-file "$secrets/server.pem" --tls-key-file "$secrets/server.key" \
		--tls-ca-cert-file "$secrets/ca.pem" --tls-auth-clients no
	await redis-cli -p "$port" --tls --cacert "$secrets/ca.pem" ping
done

export BUDGETCTL_CA_FILE=$secrets/ca.pem BUDGETCTL_TOKEN_FILE=$secrets/first-key
here deploy/compose/budgetd.yaml >"$work/budgetd.yaml"
here "$secrets/dsn" >"$secrets/dsn-here"
addresses=()
first=BUDGETD_KEYS_FIRST_ADMIN_FILE=$secrets/first-key # one node makes the key
for name in budgetd-a budgetd-b; do
	place "$name"
	title "Starting $name on https://127.0.0.1:$port"
	start "$name" env BUDGETD_LISTEN="127.0.0.1:$port" BUDGETD_NODE_NAME="$name" \
		BUDGETD_DATABASE_DSN_FILE="$secrets/dsn-here" ${first:+"$first"} \
		"$PWD/bin/budgetd" --config "$work/budgetd.yaml"
	await bin/budgetctl --server "https://127.0.0.1:$port" ready
	first=
	addresses+=("https://127.0.0.1:$port")
done

title "Starting Prometheus"
here deploy/compose/prometheus.yaml |
	sed "s|/etc/prometheus/alerts.yml|$PWD/deploy/prometheus/alerts.yml|" >"$work/prometheus.yaml"
free_port
prometheus=http://127.0.0.1:$port
start prometheus prometheus --config.file="$work/prometheus.yaml" \
	--storage.tsdb.path="$work/prometheus" --web.listen-address="127.0.0.1:$port"
scraped() {
	local nodes
	nodes=$(promtool query instant "$prometheus" 'up == 1' | grep -c 'job="budgetd"')
	[ "$nodes" = 2 ]
}
await scraped
run promtool query instant "$prometheus" budgetd_build_info

export BUDGETCTL_SERVER="${addresses[0]},${addresses[1]}"
run bin/budgetctl nodes
run bin/budgetctl instances
run bin/budgetctl create web-demo --total 5000 --type promo --buckets 6
for server in "${addresses[@]}"; do # the second run only repeats request ids
	run bin/budgetctl --server "$server" replay examples/web-requests.tsv web-demo \
		--rollback-every 20
done

# alert STATE says whether the alert that the budget is used up is firing or resolved.
alert() { bin/budgetctl alerts --budget web-demo --state "$1" | grep -q exhausted/total; }

title "It is sold out: an alert fires, and is resolved by an append"
await alert firing
run bin/budgetctl alerts --budget web-demo
run bin/budgetctl append web-demo 2500
await alert resolved
run bin/budgetctl alerts --budget web-demo --state any

run bin/budgetctl get web-demo
run bin/budgetctl buckets web-demo
run bin/budgetctl audit web-demo

title "A budget in store mode: its buckets are on the three Redis"
run bin/budgetctl create impressions --total 100000 --type promo --buckets 6 --durability store
run bin/budgetctl replay examples/web-requests.tsv impressions --rollback-every 0
run bin/budgetctl buckets impressions
run bin/budgetctl audit impressions

# Nothing is named that stops at once.
if [ "${KEEP-}" = 1 ] || { [ -t 0 ] && [ -t 1 ]; }; then
	title "The console is ${addresses[0]}, its key in $secrets/first-key"
	echo "Prometheus is $prometheus"
	if [ -t 0 ] && [ -t 1 ]; then
		read -r -p "Press Enter to stop everything: "
	else
		echo "Interrupt this command to stop everything."
		while sleep 1; do :; done
	fi
fi
stop_all
title "Done: every server was stopped, their files are removed"
