import { isOf, MIGRATIONS, type PairCell, runPairs } from '../campaign/pairs.js';
import { type Library, MATRIX } from '../libraries/adapters/index.js';
import { replayOf } from '../libraries/failure-file.js';
import { libraryPage } from '../libraries/recording.js';
import { REPLAY, showLibrary } from '../libraries/test-library.js';
import type { Schedule } from '../scenarios/index.js';
import { InputError } from '../scenarios/input-error.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { writeLibraryFailure } from './failure-file.js';
import type { LibrariesFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
import { clientOf, known, pairNamed } from './library-names.js';
import { type PairsReport, pairsText, type ReportedPair } from './pairs-text.js';
import { ProgressLine } from './progress.js';
import { besideFile, writeRecording } from './report-file.js';
import { workersOf } from './workers.js';

const RUNS = 10;
const SEED = 'lockstep';

/** Puts libraries beside each other on one key: two that are named, or all. */
export async function libraryPairs(flags: LibrariesFlags, io: Io): Promise<ExitCode> {
  const { pair, runs = RUNS, seed = SEED } = flags;
  const line = new ProgressLine(io);
  const [old, joining] = pair === undefined ? librariesOf(flags) : twoOf(pair);
  const migrations = MIGRATIONS.filter(
    (it) =>
      (flags.nodes === undefined || it.nodes === flags.nodes) &&
      (flags.sameKey === undefined || it.sameKey === flags.sameKey) &&
      old.some((one) => joining.some((other) => isOf(it, one, other))),
  );
  if (migrations.length === 0) throw new InputError(nothingToDo(flags));
  const { cells, commands } = await runPairs(
    old,
    joining,
    { runs, seed, migrations },
    {
      workers: await workersOf(flags.workers),
      signal: io.signal,
      onPairs: (done, all) => line.show(`${done} of ${all} pairs`),
    },
  );
  line.end();
  if (io.signal.aborted) return Exit.interrupted;
  const { schedules, pairs } = named(cells);
  const all = [...new Set([...old, ...joining])];
  const libraries = all.map(({ id, package: name, version }) => ({
    id,
    version: `${name} ${version}`,
    commands: commands.get(id) ?? [],
  }));
  const report: PairsReport = { seed, runs, libraries, schedules, pairs };
  if (flags.json) writeJson(io, 'lockstep.library-pairs/1', report);
  else if (pair === undefined) io.stdout.write(pairsText(report));
  else for (const cell of cells) io.stdout.write(await pairText(cell, io));
  return pair !== undefined && cells.some(({ verdict }) => verdict === 'unsafe') ? Exit.violated : Exit.ok;
}

function nothingToDo({ nodes, sameKey }: LibrariesFlags): string {
  if (nodes !== undefined && nodes !== 1 && (nodes !== 3 || sameKey === undefined))
    return `--nodes: libraries are put beside each other on one node, or on three if one of them is made for several`;
  return '--same-key: no name makes these use one key that do not by the same name; leave it out';
}

function librariesOf({ only }: LibrariesFlags): [readonly Library[], readonly Library[]] {
  const ids = MATRIX.map(({ id }) => id);
  known(only ?? [], ids, '--only');
  const some = MATRIX.filter(({ id }) => only === undefined || only.includes(id));
  return [some, some];
}

function twoOf(pair: readonly string[]): [readonly Library[], readonly Library[]] {
  known(
    pair,
    MATRIX.map(({ id }) => id),
    '--pair',
  );
  const [old, joining, ...more] = pair.map((id) => MATRIX.filter((it) => it.id === id));
  if (old === undefined || joining === undefined || more.length > 0)
    throw new InputError('--pair takes two libraries: the old one and the one that joins, as in redlock4,redis-kit');
  return [old, joining];
}

/** Gives schedules names; one that several pairs have in common has one. */
function named(cells: readonly PairCell[]): Pick<PairsReport, 'schedules' | 'pairs'> {
  const names = new Map<string, string>();
  const schedules: Record<string, Schedule> = {};
  const pairs = cells.map(({ schedule, ...cell }): ReportedPair => {
    if (schedule === null) return { ...cell, schedule };
    const common = { ...schedule, clients: schedule.clients.map(({ nodes: _, ...client }) => client) };
    const text = JSON.stringify(common);
    const name = names.get(text) ?? `P${names.size + 1}`;
    names.set(text, name);
    schedules[name] = common;
    return { ...cell, schedule: name };
  });
  return { schedules, pairs };
}

async function pairText(cell: PairCell, io: Io): Promise<string> {
  const { old, joining, nodes, sameKey, schedule, runs, left } = cell;
  const where = `${old}, joined by ${joining}, ${nodes === 1 ? 'on one node' : `on ${nodes} nodes`}, with ${sameKey ? 'one key' : 'one name'}`;
  const without =
    left.length === 0 ? '' : `; not asked, as one of them alone does not withstand it: ${left.join(', ')}`;
  if (schedule === null) return `✓ nothing found   ${where}: ${runs} schedules${without}\n`;
  const library = pairNamed([old, joining], sameKey);
  const client = clientOf(library, io.cwd);
  const name = `pair-${old}-${joining}-${nodes}${sameKey ? '-same-key' : ''}`;
  const shown = await showLibrary(library, schedule, false);
  const path = writeLibraryFailure({ client, extending: false, kind: 'belief', schedule }, name, io);
  const again =
    path === null ? 'none: its file could not be written' : replayOf({ client, extending: false }, path, io.command);
  if (path !== null) writeRecording(besideFile(path), libraryPage(library.id, name, shown, again), io);
  return `${where}: each library alone is safe on this schedule\n${shown.texts.join('\n').replaceAll(REPLAY, again)}\n`;
}
