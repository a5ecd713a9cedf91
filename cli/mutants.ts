import { propertyLabel } from '../report/index.js';
import { DETECTION_RUNS, DETECTION_SEEDS, type Detection, MUTANTS } from '../search/index.js';
import { formatCount, plural } from '../text/format.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { MutantsFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
import { ProgressLine } from './progress.js';
import { reporterOf } from './reporters/option.js';
import { type Case, isAlone } from './reporters/outcome.js';
import { tellSuite } from './reporters/tell.js';
import { textTable } from './text-table.js';
import { workersOf } from './workers.js';

/** Hunts all planted bugs, and says what came of it. */
export async function mutants(flags: MutantsFlags, io: Io): Promise<ExitCode> {
  const { runs = DETECTION_RUNS, seeds = DETECTION_SEEDS, strategy = 'combination' } = flags;
  const reporter = reporterOf(flags);
  const line = new ProgressLine(io);
  const began = performance.now();
  const { huntAll } = await import('../campaign/index.js');
  const catches = await huntAll(
    MUTANTS.map(({ id }) => ({ id, seeds, runs, strategy, shrink: true })),
    {
      workers: await workersOf(flags.workers),
      signal: io.signal,
      onHunt: ({ id }, done) => line.show(`hunting ${id}, ${done} of ${MUTANTS.length} done${timeLeft(began, done)}`),
    },
  );
  line.end();
  const caught = catches.filter((it) => it.caughtBy !== null).length;
  const total = MUTANTS.length;
  if (reporter === 'json')
    writeJson(io, 'lockstep.mutants/1', { mutants: catches, caught, total, seeds, runs, strategy });
  if (!isAlone(reporter)) {
    io.stdout.write(
      `${groupText('', catches, false)}${groupText('held out: never looked at when the search is tuned\n', catches, true)}` +
        `${escapedText(catches)}${caught} of ${plural(total, 'planted bug')} caught; medians of ` +
        `${plural(seeds, 'search', 'searches')} of ${plural(runs, 'schedule')} at most, strategy ${strategy}.\n${costText(catches)}`,
    );
  }
  const seconds = (performance.now() - began) / 1000;
  const summary = `${caught} of ${plural(total, 'planted bug')} caught`;
  tellSuite(reporter, { name: 'lockstep mutants', cases: catches.map(caseOf), seconds, summary }, io);
  if (io.signal.aborted) return Exit.interrupted;
  return caught === total ? Exit.ok : Exit.tooSlow;
}

function caseOf({ id, caughtBy, caught, searches }: Detection): Case {
  if (caughtBy !== null) return { name: id, result: 'passed' };
  return { name: id, result: 'failed', message: `caught in ${caught} of ${plural(searches, 'search', 'searches')}` };
}

/** Of work of which some is done; bugs are not equally hard, so this is no more than an idea. */
export function timeLeft(began: number, done: number, total: number = MUTANTS.length): string {
  if (done === 0) return '';
  const left = ((performance.now() - began) / done) * (total - done);
  return `, about ${Math.ceil(left / 1000)} s left`;
}

/** A table of the bugs that are held out, or of those that are not, with a line on how hard they were. */
function groupText(title: string, all: readonly Detection[], heldOut: boolean): string {
  const catches = all.filter((it) => it.heldOut === heldOut);
  const hardest = catches.reduce<Detection | null>(
    (a, b) => (a !== null && a.historiesMedian >= b.historiesMedian ? a : b),
    null,
  );
  if (hardest === null) return '';
  const soon = catches.filter((it) => it.historiesMedian <= SOON).length;
  return (
    `${title}${tableOf(catches)}\n` +
    `hardest: ${hardest.id}, ${plural(hardest.historiesMedian, 'schedule')}; within ${SOON}: ${soon} of ${catches.length}\n\n`
  );
}

/** Histories within which most bugs should be caught. */
const SOON = 100;

function tableOf(catches: readonly Detection[]): string {
  const rows = catches.map((it) => [
    it.id,
    it.caughtBy === null ? 'not caught' : propertyLabel(it.caughtBy),
    `${it.caught}/${it.searches}`,
    formatCount(it.historiesMedian),
    it.cpuMsMedian.toFixed(1),
    it.shrunkEvents === null ? '–' : formatCount(it.shrunkEvents),
  ]);
  return textTable(['id', 'caught by', 'searches', 'schedules', 'cpu ms', 'events'], rows);
}

/** What it would have been good to catch. */
function escapedText(catches: readonly Detection[]): string {
  const escaped = MUTANTS.filter(({ id }) => catches.some((it) => it.id === id && it.caughtBy === null));
  return escaped.map(({ id, story }) => `not caught: ${id}  ${story}\n`).join('') + (escaped.length > 0 ? '\n' : '');
}

function costText(catches: readonly Detection[]): string {
  const seconds = (of: (it: Detection) => number): string =>
    (catches.reduce((sum, it) => sum + of(it), 0) / 1000).toFixed(1);
  return `${seconds((it) => it.cpuMsFirst)} s of CPU for the first search of each, ${seconds((it) => it.cpuMsAll)} s for all.\n`;
}
