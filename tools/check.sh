#!/usr/bin/env bash
# What a commit needs. Its arguments are those of vitest. Types and lint are checked beside the build and the tests.
set -u
others=$(mktemp)
trap 'rm -f "$others"' EXIT
{ npm run -s types && npm run -s lint; } >"$others" 2>&1 &
others_pid=$!
status=0
npm run -s build && npx vitest run --project unit --project libraries "$@" || status=1
wait "$others_pid" || status=1
cat "$others"
exit "$status"
