#!/bin/sh
# Makes the unit known to systemd, and restarts budgetd after an upgrade where it runs.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
systemctl try-restart budgetd.service
