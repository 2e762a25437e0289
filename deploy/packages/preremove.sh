#!/bin/sh
# Stops budgetd before a removal, for which dpkg passes "remove" and rpm 0. An upgrade does not stop it.
set -e
[ -d /run/systemd/system ] || exit 0
case ${1-} in remove | 0) systemctl disable --now budgetd.service ;; esac
