#!/usr/bin/env bash
# Builds the console from internal/console/web into internal/console/dist, which is committed. It
# needs Node and npm. No other part of budgetd needs them to build. Modules that import each other in
# a circle fail it (cycles.mjs).
#
#	scripts/console.sh            builds the console
#	scripts/console.sh --check    builds it elsewhere, and fails if the committed files differ
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../internal/console/web"

npm ci --no-audit --no-fund --silent
npx tsc --noEmit
node cycles.mjs
if [ "${1-}" != --check ]; then
	npx vite build --logLevel warn
	exit
fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
npx vite build --logLevel warn --outDir "$built" --emptyOutDir
diff -r "$built" ../dist || {
	echo "internal/console/dist does not match its sources: run scripts/console.sh" >&2
	exit 1
}
