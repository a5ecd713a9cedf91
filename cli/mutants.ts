import { type Catch, HUNT_RUNS, HUNT_SEEDS, hunt, MUTANTS } from '../properties/index.js';
import { countWords, plural, propertyWords } from '../report/index.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { MutantsFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
import { ProgressLine } from './progress.js';
import { textTable } from './text-table.js';

/** Hunts all planted bugs, and says what came of it. */
export async function mutants(flags: MutantsFlags, io: Io): Promise<ExitCode> {
  const { runs = HUNT_RUNS, seeds = HUNT_SEEDS } = flags;
  const catches: Catch[] = [];
  const line = new ProgressLine(io);
  for (const mutant of MUTANTS) {
    if (io.signal.aborted) break;
    line.show(`hunting ${mutant.id}, ${catches.length} of ${MUTANTS.length} done`);
    catches.push(await hunt(mutant, { runs, seeds, signal: io.signal }));
  }
  line.end();
  const caught = catches.filter((it) => it.caughtBy !== null).length;
  const total = MUTANTS.length;
  if (flags.json) writeJson(io, 'lockstep.mutants/1', { mutants: catches, caught, total });
  else {
    io.stdout.write(
      `${tableOf(catches)}\n${escapedText(catches)}\n${caught} of ${plural(total, 'planted bug')} caught; ` +
        `medians of ${plural(seeds, 'search', 'searches')} of ${plural(runs, 'schedule')} at most.\n`,
    );
  }
  if (io.signal.aborted) return Exit.interrupted;
  return caught === total ? Exit.ok : Exit.tooSlow;
}

function tableOf(catches: readonly Catch[]): string {
  const rows = catches.map((it) => [
    it.id,
    it.caughtBy === null ? 'not caught' : propertyWords(it.caughtBy),
    `${it.caught}/${it.searches}`,
    countWords(it.historiesMedian),
    it.cpuMsMedian.toFixed(1),
    it.shrunkEvents === null ? '–' : countWords(it.shrunkEvents),
  ]);
  return textTable(['id', 'caught by', 'searches', 'schedules', 'cpu ms', 'events'], rows);
}

/** What it would have been good to catch. */
function escapedText(catches: readonly Catch[]): string {
  const escaped = MUTANTS.filter(({ id }) => catches.some((it) => it.id === id && it.caughtBy === null));
  return escaped.map(({ id, story }) => `\nnot caught: ${id}  ${story}`).join('') + (escaped.length > 0 ? '\n' : '');
}
