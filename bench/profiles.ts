import { ORIGINS, type Origin, PROFILES } from '../deviations/index.js';
import { playgroundLink } from '../report/playground/index.js';
import type { PropertyId } from '../scenarios/scenario.js';
import type { Distinction } from '../search/profiles/distinction.js';
import { CLIENT_DIFFERENCES } from '../search/profiles/distinctions.js';
import { brokenProperties } from '../search/profiles/search.js';
import { correctionsText, verdictTable } from '../search/profiles/tables.js';
import { KNOWN_CLIENTS } from '../search/profiles/verdicts.js';

/*
 * Prints docs/client-profiles.md. With a number as its argument, searches so many schedules for each client.
 */

const RUNS = Number(process.argv[2] ?? 400);

function sourceLinks({ sources }: Origin): string {
  return sources
    .map(({ repository, commit, paths }) =>
      repository === 'npm'
        ? `npm ${commit} (${paths.join(', ')})`
        : `[${repository}@${commit.slice(0, 10)}](https://github.com/${repository}/tree/${commit}) (${paths.join(', ')})`,
    )
    .join('; ');
}

function profileRow(id: string): string {
  const origin = ORIGINS[id];
  if (origin === undefined) return '';
  const unknown = origin.unknown.map((field) => `\`${field}\``).join(', ') || '–';
  const simpler = origin.simplified.join('; ') || '–';
  return `| \`${id}\` | ${origin.title} | ${origin.version ?? '–'} | ${sourceLinks(origin)} | ${unknown} | ${simpler} | ${playgroundLink({ profile: id })} |`;
}

function cell(found: ReadonlyMap<PropertyId, number>, but?: ReadonlyMap<PropertyId, number>): string {
  const left = [...found].filter(([property]) => !but?.has(property)).sort(([a], [b]) => a.localeCompare(b));
  return left.map(([property, run]) => `${property} (${run + 1})`).join(', ') || '–';
}

function searchRow(id: string): string {
  process.stderr.write(`${id}\n`);
  const { inside, anywhere } = brokenProperties(id, RUNS);
  return `| \`${id}\` | ${cell(inside)} | ${cell(anywhere, inside)} |`;
}

const scheduleIds = CLIENT_DIFFERENCES.map(({ id }: Distinction) => id);

process.stdout.write(`# Known clients

\`npm run -s docs:profiles\` prints this page. \`deviations/profiles/\` has ${KNOWN_CLIENTS.length} known Redlock clients as policies: the choices of each client where
clients differ.

* \`lockstep list --profiles\` lists them.
* \`lockstep check --profile redlock-php\` searches with one.
* \`lockstep replay F1 --with policy=pottery\` replays a schedule with one.

A profile is Lockstep's own lock with the choices of a client. It is not the client itself. A result applies to the client as far as the
profile is correct. The table says what the sources leave open, and where the profile is simpler. A search within the assumptions tests the
choices. It does not say how often a client fails in production.

## Sources

If the sources do not say how a client behaves, its settings have the defaults, and it has no deviation. The last column opens a search with
the profile in the [playground](cli.md#playground).

| profile | client | version | source | not in the source | simpler than the client | to try it |
|---|---|---|---|---|---|---|
${KNOWN_CLIENTS.map(profileRow).join('\n')}

## Verdicts on the schedules that tell clients apart

\`lockstep replay ${scheduleIds[0]}\` shows one with the client that it is about. **✗**: fails; ·: passes; blank: does not apply (no extensions,
or no watchdog). A test runs every pair.

${verdictTable(CLIENT_DIFFERENCES)}

All clients fail F12 and F12b (nodes that lose data, or whose clocks step) and F13 (a holder that paused writes). No client can prevent the
first two, and none of them has fencing tokens.

### Where the simulator contradicts a reading of the sources

${correctionsText(CLIENT_DIFFERENCES)}

Some schedules have no column:

* G11 (the timer of \`using\` outlives the routine) is about the program around the lock. It runs with the libraries themselves:
  [redlock 5 and @sesamecare-oss/redlock](findings/redlock5-leaked-timer.md) and
  [redlock-universal](findings/redlock-universal-leaked-timer.md).
* F14 and F15 are examples from two of the documents that this project started from.
* G8 is fail-fast in redsync, which is an option and not in the profile.

## What a short search finds

The search generates ${RUNS} schedules per profile (seed 1), up to the bounds of the profile's policy.
\`lockstep check --profile <profile> --properties <property> --runs ${RUNS}\` finds each violation in the run with the number in brackets.
*Inside*: the schedule keeps every assumption, so the client is at fault. *Outside*: only schedules that break an assumption violate
the property, mostly because a wall clock is set. An empty cell is not a proof.

Many violations follow from one choice:

* \`unique-token\`: one token per call or process, instead of per attempt.
* \`loss-notified\`: no timer notifies the owner of the end.
* \`fault-tolerance\`: the client has no time-out of its own.
* \`acquisition\`, of clients that truncate timestamps: a hold up to 1 ms longer than T1 + TTL − D. The 2 ms of the allowance cover that.
* \`deadlock-free\`, of clients with automatic extensions: they extend for ever.

\`mutual-exclusion\` and \`quorum-backed\` inside are the ones to look at first.

| profile | inside the assumptions | only outside |
|---|---|---|
${['reference', ...KNOWN_CLIENTS]
  .filter((id) => PROFILES[id] !== undefined)
  .map(searchRow)
  .join('\n')}
`);
