#!/usr/bin/env bash
# Shows the embedded server: budgetd without arguments in a temporary directory, and a budget of
# 6,200 units in four buckets. 6,000 real web requests use one unit each, and every 20th is rolled
# back. The demo then prints the budget, its buckets and the audit. It needs only Go:
# the budget is in ledger mode, which uses no Redis.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/servers.sh
. scripts/servers.sh

title "Building"
make --no-print-directory build

free_port
title "Starting budgetd on 127.0.0.1:$port, everything embedded"
start budgetd env BUDGETD_LISTEN="127.0.0.1:$port" "$PWD/bin/budgetd"
await ready "$port"
export BUDGETCTL_SERVER="http://127.0.0.1:$port"

run bin/budgetctl create web-demo --total 5000 --type promo --buckets 4
run bin/budgetctl append web-demo 1200
run bin/budgetctl replay examples/web-requests.tsv web-demo --rollback-every 20
run bin/budgetctl get web-demo
run bin/budgetctl buckets web-demo
run bin/budgetctl audit web-demo

stop_all
title "Done: budgetd was stopped, its files are removed"
