import { existsSync, readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { judgeAsExpected, reproduces } from '../properties/expectation.js';
import type { Painter } from '../report/index.js';
import { InputError, show } from '../scenarios/input-error.js';
import { mitigate } from '../scenarios/mitigations.js';
import { plural } from '../text/format.js';
import { printable } from '../text/printable.js';
import { FAILURES, replayCommand } from './failure-file.js';
import type { CheckFlags } from './flags.js';
import type { Io } from './io.js';
import { ProgressLine } from './progress.js';
import { loadScenario } from './scenario-file.js';

/** Where regressions are that are committed, below the working directory, unless another folder is named. */
export const REGRESSIONS = 'lockstep/regressions';

const LONGEST_DIFFERENCE = 400;

/** A known schedule that does not do what it did, or what it should. */
interface Unreproduced {
  readonly path: string;
  readonly difference: string;
}

/** A known schedule that fails as it was written down, which it should. */
interface KnownFailure {
  readonly path: string;
  /** Whether somebody keeps it on purpose: it was not only found here. */
  readonly committed: boolean;
  /** Whether it fails with today's settings too; without any, it is as it was written down. */
  readonly stillFails: boolean;
}

/** What came of the known schedules. */
export interface Regressions {
  readonly total: number;
  readonly unreproduced: readonly Unreproduced[];
  /** Today's settings, as mitigations: `persistence=always`. */
  readonly settings: readonly string[];
  readonly failures: readonly KnownFailure[];
}

/** Nothing is known. */
export const NOTHING_KNOWN: Regressions = { total: 0, unreproduced: [], settings: [], failures: [] };

/** What flags and the configuration file say of clients and nodes, as mitigations of a schedule. */
export function settingsOf({
  profile,
  driftAllowance,
  targetVotes,
  persistence,
  restartDelay,
  nodes,
  ttl,
}: CheckFlags): string[] {
  const [ttlMs, ...others] = ttl ?? [];
  const given: readonly (readonly [name: string, value: string | number | undefined])[] = [
    // It comes with settings of its own, which others change.
    ['policy', profile],
    ['nodes', nodes],
    ['ttl', ttlMs === undefined || others.length > 0 ? undefined : `${ttlMs}ms`],
    ['drift-allowance', driftAllowance === undefined ? undefined : `${driftAllowance / PPM_PER_PERCENT}%`],
    ['votes-wanted', targetVotes],
    ['persistence', persistence],
    ['restart-delay', typeof restartDelay === 'number' ? `${restartDelay}us` : restartDelay],
  ];
  return given.flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
}

const PPM_PER_PERCENT = 10_000;

/** Whether a failure that is kept on purpose is possible with today's settings. */
export function standsCommitted({ settings, failures }: Regressions): boolean {
  return settings.length > 0 && failures.some((it) => it.committed && it.stillFails);
}

/**
 * Replays what is known before anything is searched: failures that were found here, and those that are committed. A file
 * without an expectation of its own has to be safe.
 *
 * @throws InputError if the folder that is named is not there, or something is wrong with a file.
 */
export function replayRegressions(folder: string | undefined, settings: readonly string[], io: Io): Regressions {
  if (folder !== undefined && !existsSync(resolve(io.cwd, folder))) {
    throw new InputError(`--regressions: there is no folder ${show(folder)}`);
  }
  const paths = [FAILURES, folder ?? REGRESSIONS].flatMap((it) => schedulesIn(it, io.cwd));
  const line = new ProgressLine(io);
  const unreproduced: Unreproduced[] = [];
  const failures: KnownFailure[] = [];
  let total = 0;
  for (const path of paths) {
    if (io.signal.aborted) break;
    line.show(`replaying known schedules, ${total} of ${paths.length} done`);
    const { difference, stillFails } = replayOne(path, settings, io.cwd);
    if (difference !== null) unreproduced.push({ path, difference });
    else if (stillFails !== null) failures.push({ path, committed: !path.startsWith(`${FAILURES}/`), stillFails });
    total++;
  }
  line.end();
  return { total, unreproduced, settings, failures };
}

function schedulesIn(folder: string, cwd: string): string[] {
  const place = resolve(cwd, folder);
  if (!existsSync(place)) return [];
  const files = readdirSync(place, { withFileTypes: true }).filter((it) => it.isFile() && it.name.endsWith('.json'));
  return files.map(({ name }) => `${folder.replace(/\/+$/, '')}/${name}`).sort();
}

interface Replayed {
  readonly difference: string | null;
  /** `null` where it should not fail. */
  readonly stillFails: boolean | null;
}

/** As it was written down, which tells whether the simulator has changed; and with today's settings, if it fails. */
function replayOne(path: string, settings: readonly string[], cwd: string): Replayed {
  const { schedule, scenario } = loadScenario(path, cwd);
  const expected = scenario?.expect ?? { verdict: 'safe' };
  const difference = reproduces(expected, judgeAsExpected(schedule, expected));
  if (difference !== null || expected.verdict === 'safe') return { difference, stillFails: null };
  const today = judgeAsExpected(settings.reduce(mitigate, schedule), expected).verdict;
  // A node that is held back is away: nobody can lock meanwhile, and that is not what failed.
  return { difference, stillFails: expected.verdict === 'violated' ? today === 'violated' : today !== 'safe' };
}

/** What people are told of it; nothing where nothing is known. */
export function regressionsText(known: Regressions, io: Io, paint: Painter): string {
  const { total, unreproduced } = known;
  if (total === 0) return '';
  if (unreproduced.length === 0)
    return `Replayed ${plural(total, 'known schedule')} first: reproduced.\n${failuresText(known, paint)}`;
  const lines = unreproduced.map(
    ({ path, difference }) =>
      `${paint.bad('✗ not reproduced')}   ${printable(path)}\n  ${printable(difference, LONGEST_DIFFERENCE)}\n` +
      `  ${replayCommand(io, path)}   shows it\n`,
  );
  return (
    `${lines.join('')}Of ${plural(total, 'known schedule')}, ${unreproduced.length} no longer reproduced; nothing was ` +
    'searched. Mend or delete them, or go on with --no-regressions.\n'
  );
}

/** More say no more. */
const MOST_LISTED = 10;

function failuresText({ settings, failures }: Regressions, paint: Painter): string {
  const whose = settings.length === 0 ? '' : ' with your settings';
  const lines = failures.slice(0, MOST_LISTED).map(({ path, committed, stillFails }) => {
    if (!stillFails) return `  ${paint.good('✓ now passes')}${whose}   ${printable(path)}\n`;
    const mark = committed && settings.length > 0 ? paint.bad('✗ still fails') : '– still fails';
    return `  ${mark}${whose}   ${printable(path)}\n`;
  });
  const more = failures.length - MOST_LISTED;
  const asked = settings.length === 0 ? '' : `  (${settings.join(', ')})\n`;
  return `${lines.join('')}${more > 0 ? `  … and ${plural(more, 'more failure')}\n` : ''}${failures.length > 0 ? asked : ''}`;
}
