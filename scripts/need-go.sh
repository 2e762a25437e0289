#!/usr/bin/env bash
# Says what to do if Go is missing or too old. From 1.21 on Go gets the version that go.mod names by
# itself, unless GOTOOLCHAIN says otherwise; an older one does not even read go.mod.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."

"${GO:-go}" list -m >/dev/null || {
	newest=$(sed -n 's/^go //p' go.mod {*,*/*,*/*/*}/go.mod 2>/dev/null | sort -V | tail -n 1)
	echo "budgetd needs Go $newest or later: see https://go.dev/dl/" >&2
	exit 1
}
