import { type Detection, MUTANTS, STRATEGY_INFO, STRATEGY_NAMES, type StrategyName } from '../search/index.js';
import { formatCount, plural } from '../text/format.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { MutantsFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
import { timeLeft } from './mutants.js';
import { ProgressLine } from './progress.js';
import { textTable } from './text-table.js';
import { workersOf } from './workers.js';

/** High enough that a miss is one, and no more than minutes for a strategy that misses much. */
const RUNS = 20_000;
const SEEDS = 5;

/** What the strategies made of one planted bug. */
interface Row {
  readonly id: string;
  readonly heldOut: boolean;
  readonly byStrategy: Partial<
    Record<StrategyName, Pick<Detection, 'caught' | 'searches' | 'historiesMedian' | 'cpuMsMedian'>>
  >;
}

/** Hunts all planted bugs with each strategy, and compares them. */
export async function compareStrategies(flags: MutantsFlags, io: Io): Promise<ExitCode> {
  const { runs = RUNS, seeds = SEEDS } = flags;
  const line = new ProgressLine(io);
  const began = performance.now();
  const { huntAll } = await import('../campaign/index.js');
  const tasks = MUTANTS.flatMap(({ id }) =>
    STRATEGY_NAMES.map((strategy) => ({ id, seeds, runs, strategy, shrink: false })),
  );
  const catches = await huntAll(tasks, {
    workers: await workersOf(flags.workers),
    signal: io.signal,
    onHunt: ({ id, strategy }, done) =>
      line.show(
        `hunting ${id} with ${strategy}, ${done} of ${tasks.length} done${timeLeft(began, done, tasks.length)}`,
      ),
  });
  const rows = MUTANTS.map(({ id }) => rowOf(catches.filter((it) => it.id === id))).filter((row) => row !== null);
  line.end();
  if (flags.json) writeJson(io, 'lockstep.mutants-strategies/1', { mutants: rows, runs, seeds });
  else io.stdout.write(text(rows, runs, seeds));
  return io.signal.aborted ? Exit.interrupted : Exit.ok;
}

/** `null` where not all strategies have hunted. */
function rowOf(catches: readonly Detection[]): Row | null {
  const [first] = catches;
  if (first === undefined || catches.length < STRATEGY_NAMES.length) return null;
  const { id, heldOut } = first;
  const byStrategy = catches.map(({ strategy, caught, searches, historiesMedian, cpuMsMedian }) => [
    strategy,
    { caught, searches, historiesMedian, cpuMsMedian },
  ]);
  return { id, heldOut, byStrategy: Object.fromEntries(byStrategy) };
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
  const schedules = isCaught(it) ? formatCount(it.historiesMedian) : `> ${formatCount(runs)}`;
  return `${schedules}  ${it.cpuMsMedian.toFixed(0).padStart(5)}`;
}
