#!/bin/sh
# Stops budgetd before it is removed: dpkg says "remove", rpm 0. An upgrade stops nothing here.
set -e
[ -d /run/systemd/system ] || exit 0
case ${1-} in remove | 0) systemctl disable --now budgetd.service ;; esac
