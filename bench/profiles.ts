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

Printed by \`npm run -s docs:profiles\`. \`deviations/profiles/\` has ${KNOWN_CLIENTS.length} known Redlock clients as policies: what each of them chooses where
clients differ. \`lockstep list --profiles\` names them, \`lockstep check --profile redlock-php\` searches with one, and
\`lockstep replay F1 --with policy=pottery\` plays a schedule with one.

A profile is the lock of this project with the choices of a client, and not the client: what it shows holds for the client as
far as the profile is right, and the table says what its sources leave open and where it is simpler. A search inside a
profile's assumptions says what the choices are worth, not how often a client fails in production.

## Where each was read

Settings on which the sources say nothing have their defaults, and deviations of which they say nothing are left out. The last column
opens a search with the profile in the [playground](cli.md#playground).

| profile | client | version | read in | not said there | simpler than the client | to try it |
|---|---|---|---|---|---|---|
${KNOWN_CLIENTS.map(profileRow).join('\n')}

## What each makes of the schedules that tell them apart

\`lockstep replay ${scheduleIds[0]}\` shows one with the client that shows it best. **✗**: fails; ·: passes; blank: has nothing that it is about (no
extensions, or no watchdog). A test plays every pair.

${verdictTable(CLIENT_DIFFERENCES)}

All clients fail F12 and F12b (nodes that forget, or whose clocks jump) and F13 (a holder that was frozen writes): no client
can prevent the first two, and none of them has fencing tokens.

### Where the simulator says something else than was stated from the sources

${correctionsText(CLIENT_DIFFERENCES)}

G11, that the timer of \`using\` outlives the routine, is about the program around the lock and has no column: it is played with the
libraries themselves, [redlock 5 and @sesamecare-oss/redlock](findings/redlock5-leaked-timer.md) and
[redlock-universal](findings/redlock-universal-leaked-timer.md). F14 and F15 are the examples of two of the documents that this project
started from; G8 is fail-fast in redsync, which is an option and not the profile.

## What a short search finds

${RUNS} schedules for each, seed 1, drawn from all that the lock claims to withstand, up to the edge of what the policy of the
profile can bear: \`lockstep check --profile <profile> --properties <property> --runs ${RUNS}\` finds each of these in the run whose
number is in brackets. *Inside*: the schedule keeps every assumption, so that it is the client's own doing. *Outside*: it was
found only in schedules that break one, mostly because a wall clock is set. Nothing found is no proof.

Much of it is one choice each: \`unique-token\` is a token for the call or for the process instead of the attempt; \`loss-notified\` an owner
that no timer tells of the end; \`fault-tolerance\` no time-out of one's own; \`acquisition\` of the clients that cut their time
stamps, a claim up to 1 ms longer than T1 + TTL − D, which the 2 ms of the allowance make good; \`deadlock-free\` of those that
extend by themselves, that they do so for ever. \`mutual-exclusion\` and \`validity\` inside are what to look at first.

| profile | inside the assumptions | only outside |
|---|---|---|
${['reference', ...KNOWN_CLIENTS]
  .filter((id) => PROFILES[id] !== undefined)
  .map(searchRow)
  .join('\n')}
`);
