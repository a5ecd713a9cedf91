import { type Catch, hunt, MUTANTS, STRATEGY_INFO, STRATEGY_NAMES, type StrategyName } from '../properties/index.js';
import { countWords, plural } from '../report/index.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { MutantsFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
import { timeLeft } from './mutants.js';
import { ProgressLine } from './progress.js';
import { textTable } from './text-table.js';

/** High enough that a miss is one, and no more than minutes for a strategy that misses much. */
const RUNS = 20_000;
const SEEDS = 5;

/** What the strategies made of one planted bug. */
interface Row {
  readonly id: string;
  readonly heldOut: boolean;
  readonly byStrategy: Partial<
    Record<StrategyName, Pick<Catch, 'caught' | 'searches' | 'historiesMedian' | 'cpuMsMedian'>>
  >;
}

/** Hunts all planted bugs with each strategy, and compares them. */
export async function compareStrategies(flags: MutantsFlags, io: Io): Promise<ExitCode> {
  const { runs = RUNS, seeds = SEEDS } = flags;
  const rows: Row[] = [];
  const line = new ProgressLine(io);
  const began = performance.now();
  for (const mutant of MUTANTS) {
    const byStrategy: Row['byStrategy'] = {};
    let heldOut = false;
    for (const strategy of STRATEGY_NAMES) {
      if (io.signal.aborted) break;
      line.show(
        `hunting ${mutant.id} with ${strategy}, ${rows.length} of ${MUTANTS.length} done${timeLeft(began, rows.length)}`,
      );
      const it = await hunt(mutant, { runs, seeds, strategy, shrink: false, signal: io.signal });
      if (io.signal.aborted) break;
      heldOut = it.heldOut;
      const { caught, searches, historiesMedian, cpuMsMedian } = it;
      byStrategy[strategy] = { caught, searches, historiesMedian, cpuMsMedian };
    }
    if (io.signal.aborted) break;
    rows.push({ id: mutant.id, heldOut, byStrategy });
  }
  line.end();
  if (flags.json) writeJson(io, 'lockstep.mutants-strategies/1', { mutants: rows, runs, seeds });
  else io.stdout.write(text(rows, runs, seeds));
  return io.signal.aborted ? Exit.interrupted : Exit.ok;
}

function text(rows: readonly Row[], runs: number, seeds: number): string {
  const cells = rows.map((row) => [
    `${row.id}${row.heldOut ? ' *' : ''}`,
    ...STRATEGY_NAMES.map((strategy) => cell(row.byStrategy[strategy], runs)),
  ]);
  const total = (of: (strategy: StrategyName) => string): string[] => STRATEGY_NAMES.map(of);
  const caught = total(
    (strategy) => `${rows.filter((row) => isCaught(row.byStrategy[strategy])).length}/${rows.length}`,
  );
  const cpu = total((strategy) => {
    const ms = rows.reduce((sum, row) => sum + (row.byStrategy[strategy]?.cpuMsMedian ?? 0), 0);
    return `${(ms / 1000).toFixed(2)} s`;
  });
  const stories = STRATEGY_NAMES.map((name) => `  ${name.padEnd(13)}${STRATEGY_INFO[name].story}\n`).join('');
  return (
    `Schedules to the catch, and CPU ms: medians of ${plural(seeds, 'search', 'searches')} of ` +
    `${plural(runs, 'schedule')} at most; * is held out.\n` +
    `${textTable(['id', ...STRATEGY_NAMES], [...cells, ['caught', ...caught], ['cpu', ...cpu]])}\n${stories}`
  );
}

function isCaught(it: Row['byStrategy'][StrategyName]): boolean {
  return it !== undefined && 2 * it.caught > it.searches;
}

function cell(it: Row['byStrategy'][StrategyName], runs: number): string {
  if (it === undefined) return '';
  const schedules = isCaught(it) ? countWords(it.historiesMedian) : `> ${countWords(runs)}`;
  return `${schedules}  ${it.cpuMsMedian.toFixed(0).padStart(5)}`;
}
