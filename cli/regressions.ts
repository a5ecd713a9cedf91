import { existsSync, readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { printable } from '../core/printable.js';
import { judgeAsExpected, reproduces } from '../properties/expectation.js';
import type { Painter } from '../report/index.js';
import { plural } from '../report/words.js';
import { InputError, show } from '../scenarios/input-error.js';
import { FAILURES, replayCommand } from './failure-file.js';
import type { Io } from './io.js';
import { ProgressLine } from './progress.js';
import { loadScenario } from './scenario-file.js';

/** Where regressions are that are committed, below the working directory, unless another folder is named. */
export const REGRESSIONS = 'lockstep/regressions';

const LONGEST_DIFFERENCE = 400;

/** A known schedule that does not do what it did, or what it should. */
export interface Unreproduced {
  readonly path: string;
  readonly difference: string;
}

/** What came of the known schedules. */
export interface Regressions {
  readonly total: number;
  readonly unreproduced: readonly Unreproduced[];
}

/**
 * Replays what is known before anything is searched: failures that were found here, and those that are committed. A file
 * without an expectation of its own has to be safe.
 *
 * @throws InputError if the folder that is named is not there, or something is wrong with a file.
 */
export function replayRegressions(folder: string | undefined, io: Io): Regressions {
  if (folder !== undefined && !existsSync(resolve(io.cwd, folder))) {
    throw new InputError(`--regressions: there is no folder ${show(folder)}`);
  }
  const paths = [FAILURES, folder ?? REGRESSIONS].flatMap((it) => schedulesIn(it, io.cwd));
  const line = new ProgressLine(io);
  const unreproduced: Unreproduced[] = [];
  let total = 0;
  for (const path of paths) {
    if (io.signal.aborted) break;
    line.show(`replaying known schedules, ${total} of ${paths.length} done`);
    const difference = replayOne(path, io.cwd);
    if (difference !== null) unreproduced.push({ path, difference });
    total++;
  }
  line.end();
  return { total, unreproduced };
}

function schedulesIn(folder: string, cwd: string): string[] {
  const place = resolve(cwd, folder);
  if (!existsSync(place)) return [];
  const files = readdirSync(place, { withFileTypes: true }).filter((it) => it.isFile() && it.name.endsWith('.json'));
  return files.map(({ name }) => `${folder.replace(/\/+$/, '')}/${name}`).sort();
}

function replayOne(path: string, cwd: string): string | null {
  const { schedule, scenario } = loadScenario(path, cwd);
  const expected = scenario?.expect ?? { verdict: 'safe' };
  return reproduces(expected, judgeAsExpected(schedule, expected));
}

/** What people are told of it; nothing where nothing is known. */
export function regressionsText({ total, unreproduced }: Regressions, io: Io, paint: Painter): string {
  if (total === 0) return '';
  if (unreproduced.length === 0) return `Replayed ${plural(total, 'known schedule')} first: reproduced.\n`;
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
