#!/usr/bin/env bash
# What a commit needs. Its arguments are those of vitest. Types and lint are checked while the tests run.
set -u
npm run -s build || exit 1
others=$(mktemp)
trap 'rm -f "$others"' EXIT
{ npm run -s types && npm run -s lint; } >"$others" 2>&1 &
others_pid=$!
npx vitest run --experimental.fsModuleCache --project unit --project libraries --project mock "$@"
status=$?
wait "$others_pid" || status=1
cat "$others"
exit "$status"
