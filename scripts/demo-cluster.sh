#!/usr/bin/env bash
# Runs the demo of demo.sh with the parts of a production system on one machine: two budgetd, one
# MariaDB and three Redis, configured by examples/cluster.yaml with private ports. The same requests
# go through one budgetd and then through the other. The second time all of them are replays, so the
# figures are those of demo.sh.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/test-deps.sh
# shellcheck source=scripts/servers.sh
. scripts/servers.sh

title "Building"
make --no-print-directory build

title "Starting MariaDB and three Redis"
as_root=()
if [ "$(id -u)" = 0 ]; then
	as_root=(--user=root) # mariadbd refuses to run as root unless told to
fi
mariadb-install-db --no-defaults "${as_root[@]}" --datadir="$work/mariadb" \
	--auth-root-authentication-method=normal --skip-name-resolve --skip-test-db \
	>"$work/mariadb-install.log" 2>&1 || die "$(<"$work/mariadb-install.log")"
free_port
mariadb_port=$port
start mariadb mariadbd --no-defaults "${as_root[@]}" --datadir="$work/mariadb" \
	--bind-address=127.0.0.1 --port="$mariadb_port" --socket="$work/mariadb.sock" \
	--skip-name-resolve --innodb-flush-log-at-trx-commit=1 --innodb-buffer-pool-size=128M
mariadb=(mariadb --no-defaults --user=root --socket="$work/mariadb.sock")
await "${mariadb[@]}" --execute 'SELECT 1'
"${mariadb[@]}" <<'SQL'
CREATE DATABASE budgetd;
CREATE USER budgetd@'127.0.0.1' IDENTIFIED BY 'change-me';
GRANT ALL ON budgetd.* TO budgetd@'127.0.0.1';
SQL

redis_ports=()
for name in redis-a redis-b redis-c; do
	free_port
	redis_ports+=("$port")
	mkdir "$work/$name"
	start "$name" redis-server --bind 127.0.0.1 --port "$port" --dir "$work/$name" \
		--save '' --appendonly yes --appendfsync everysec --maxmemory-policy noeviction
	await redis-cli -p "$port" ping
done

sed -e "s/127\.0\.0\.1:3306/127.0.0.1:$mariadb_port/" \
	-e "s/127\.0\.0\.1:6379/127.0.0.1:${redis_ports[0]}/" \
	-e "s/127\.0\.0\.1:6380/127.0.0.1:${redis_ports[1]}/" \
	-e "s/127\.0\.0\.1:6381/127.0.0.1:${redis_ports[2]}/" \
	examples/cluster.yaml >"$work/budgetd.yaml"

servers=()
for name in budgetd-a budgetd-b; do
	free_port
	title "Starting $name on 127.0.0.1:$port"
	start "$name" env BUDGETD_LISTEN="127.0.0.1:$port" \
		"$PWD/bin/budgetd" --config "$work/budgetd.yaml"
	await ready "$port"
	servers+=("http://127.0.0.1:$port")
done

export BUDGETCTL_SERVER="${servers[0]}"
run bin/budgetctl instances
run bin/budgetctl create web-demo --total 5000 --type promo --buckets 6
run bin/budgetctl append web-demo 1200
for server in "${servers[@]}"; do
	run bin/budgetctl --server "$server" replay examples/web-requests.tsv web-demo \
		--rollback-every 20
done
run bin/budgetctl get web-demo
run bin/budgetctl buckets web-demo
run bin/budgetctl instances
run bin/budgetctl audit web-demo

stop_all
title "Done: every server was stopped, their files are removed"
