import { basename } from 'node:path';
import type { MatrixRow } from '../campaign/matrix.js';
import { MATRIX, ONLY_BY_NAME } from '../libraries/adapters/index.js';
import { type ClientFailure, parseClientSchedule, replayOf } from '../libraries/failure-file.js';
import { libraryPage } from '../libraries/recording.js';
import { FAULT_CLASSES, onNodes } from '../libraries/search/fault-classes.js';
import { UnsupportedClient } from '../libraries/session.js';
import { type LibraryRef, REPLAY, showLibrary } from '../libraries/test-library.js';
import { htmlReport } from '../report/html.js';
import { type RecordingInput, recordingOf } from '../report/index.js';
import { InputError } from '../scenarios/input-error.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { writeLibraryFailure } from './failure-file.js';
import type { LibrariesFlags } from './flags.js';
import { type Io, say, writeJson } from './io.js';
import { failureName, matrixText, type Written } from './libraries-text.js';
import { clientOf, known, ownLibrary, pairNamed } from './library-names.js';
import { ProgressLine } from './progress.js';
import { readText } from './read-text.js';
import { besideFile, showRecording, writeRecording } from './report-file.js';
import { workersOf } from './workers.js';

type RecordedWith = Pick<ClientFailure, 'client' | 'extending'>;

const RUNS = 50;
const SEED = 'lockstep';

/** Tests npm lock libraries, or one of the user's own. */
export async function libraries(flags: LibrariesFlags, io: Io): Promise<ExitCode> {
  if (flags.replay !== undefined) return replay(flags, io);
  if (flags.pair !== undefined || flags.pairs) return (await import('./library-pairs.js')).libraryPairs(flags, io);
  const names = namesOf(flags, io);
  const faults = faultsOf(flags);
  const { runs = RUNS, seed = SEED, shrink, nodes } = flags;
  const line = new ProgressLine(io);
  const all = names.length * faults.length;
  const { runMatrix } = await import('../campaign/matrix.js');
  const rows = await runMatrix(
    names,
    faults,
    { runs, seed, shrink, ...(nodes === undefined ? {} : { nodes }) },
    {
      workers: await workersOf(flags.workers),
      signal: io.signal,
      onCells: (id, done) => line.show(`${id}: ${done} of ${all} cells`),
    },
  );
  line.end();
  const written = shrink ? writeAll(rows, names, io) : new Map<string, string>();
  if (flags.json) writeJson(io, 'lockstep.libraries/1', { seed, runs, rows: jsonRows(rows, written) });
  else
    io.stdout.write(
      matrixText(rows, written, (row, fault, path) => replayOf(recordedWith(row, fault, names, io), path, io.command)),
    );
  for (const { id } of rows.filter(isIdle)) {
    say(io, `${id} has never acquired the lock, so nothing was tested`);
  }
  return exitOf(rows, flags, io);
}

/** @throws InputError for classes that there are not, or not on so many nodes. */
function faultsOf({ faultClasses: faults, nodes }: LibrariesFlags): string[] {
  const all = FAULT_CLASSES.map(({ id }) => id);
  known(faults ?? [], all, '--fault-classes');
  const possible = FAULT_CLASSES.filter((it) => onNodes(it, nodes) !== null).map(({ id }) => id);
  const odd = faults?.find((it) => !possible.includes(it));
  if (odd !== undefined)
    throw new InputError(`--fault-classes: ${odd} is not for --nodes ${nodes}; leave out one of the two`);
  return possible.filter((it) => faults === undefined || faults.includes(it));
}

/** Whether its client never got a lock, so that none could be broken. */
function isIdle({ cells }: MatrixRow): boolean {
  return cells.length > 0 && cells.every(({ claims }) => claims === 0);
}

function exitOf(rows: readonly MatrixRow[], flags: LibrariesFlags, io: Io): ExitCode {
  if (io.signal.aborted) return Exit.interrupted;
  if (rows.some((row) => row.error !== null || isIdle(row))) return Exit.inconclusive;
  const inside = rows.some(({ cells }) => cells.some((cell) => cell.inside > 0));
  return flags.file !== undefined && inside ? Exit.violated : Exit.ok;
}

function namesOf({ file, only }: Pick<LibrariesFlags, 'file' | 'only'>, io: Io): LibraryRef[] {
  if (file !== undefined) {
    return [ownLibrary(file, io.cwd, '--file')];
  }
  const ids = MATRIX.map(({ id }) => id);
  known(only ?? [], [...ids, ...ONLY_BY_NAME.map(({ id }) => id)], '--only');
  return (only ?? ids).map((id) => ({ id }));
}

function writeAll(rows: readonly MatrixRow[], names: readonly LibraryRef[], io: Io): Written {
  const written = new Map<string, string>();
  for (const { id, cells } of rows) {
    for (const { fault, failures } of cells) {
      for (const failure of failures) {
        const name = failureName(id, fault, failure.kind);
        const recorded = recordedWith(id, fault, names, io);
        const { kind, schedule } = failure;
        const path = writeLibraryFailure({ ...recorded, kind, schedule }, name, io);
        if (path === null) continue;
        written.set(name, path);
        const again = replayOf(recorded, path, io.command);
        writeRecording(besideFile(path), libraryPage(id, name, failure, again), io);
      }
    }
  }
  return written;
}

/** Whose client ran in a row of the matrix, and how. */
function recordedWith(row: string, fault: string, names: readonly LibraryRef[], io: Io): RecordedWith {
  return { client: clientOf(names.find(({ id }) => id === row) ?? { id: row }, io.cwd), extending: isExtending(fault) };
}

function jsonRows(rows: readonly MatrixRow[], written: Written): object[] {
  return rows.flatMap(({ id, library, version, cells }) =>
    cells.map(({ fault, runs, violations, inside, kinds, claims, uncaught, hash, failures }) => ({
      library,
      version,
      fault,
      runs,
      violations,
      kinds,
      inside,
      outside: violations - inside,
      claims,
      uncaught,
      hash,
      counterexamples: failures.map(({ kind, run, minimal, assumptionsBroken }) => ({
        kind,
        run,
        minimal,
        assumptionsBroken,
        path: written.get(failureName(id, fault, kind)) ?? null,
      })),
    })),
  );
}

function isExtending(fault: string): boolean {
  return FAULT_CLASSES.find(({ id }) => id === fault)?.extendsItself ?? false;
}

async function replay(flags: LibrariesFlags, io: Io): Promise<ExitCode> {
  const file = flags.replay ?? '';
  const text = readText(file, io.cwd, 'a schedule, or a failure of a client', '.lockstep/libraries');
  const { schedule, failure } = parseClientSchedule(text, file);
  const library = libraryOf(flags, failure, file, io);
  const extending = flags.autoExtend ?? failure?.extending ?? false;
  const shown = await showLibrary(library, schedule, extending).catch((error: unknown) => {
    throw error instanceof UnsupportedClient ? new InputError(error.message, { cause: error }) : error;
  });
  const again = replayOf({ client: clientOf(library, io.cwd), extending }, file, io.command);
  const page = (): RecordingInput => libraryPage(library.id, basename(file, '.json'), shown, again);
  if (flags.json)
    writeJson(io, 'lockstep.library-replay/1', { library: library.id, hash: shown.hash, violations: shown.violations });
  else if (flags.open) showRecording(besideFile(file), page(), io);
  else if (flags.format === 'html') io.stdout.write(htmlReport(recordingOf(page())));
  else if (shown.texts.length === 0) io.stdout.write(`${library.id} keeps to everything on this schedule.\n`);
  else io.stdout.write(shown.texts.join('\n').replaceAll(REPLAY, again));
  return shown.violations.length > 0 ? Exit.violated : Exit.ok;
}

/** Who is to run on a schedule: who is named, else who it was recorded with. */
function libraryOf(flags: LibrariesFlags, failure: ClientFailure | null, file: string, io: Io): LibraryRef {
  const { pair, sameKey = false } = flags;
  if (pair !== undefined) return pairNamed(pair, sameKey);
  const isNamed = flags.file !== undefined || flags.only !== undefined;
  if (!isNamed && failure?.client.from === 'pair')
    return pairNamed([failure.client.name], failure.client.sameKey ?? false);
  if (!isNamed && failure?.client.from === 'library') return onlyOne({ only: [failure.client.name] }, io);
  if (!isNamed && failure?.client.from === 'file') return onlyOne({ file: failure.client.name }, io);
  if (!isNamed && failure?.client.from === 'audit')
    throw new InputError(`--replay: ${file} was found by an audit; run ${replayOf(failure, file, io.command)}`);
  if (!isNamed && failure?.client.from === 'test') {
    const again = replayOf(failure, file, io.command);
    throw new InputError(`--replay: ${file} was recorded with the client of a test; let that test call ${again}`);
  }
  return onlyOne(flags, io);
}

function onlyOne(flags: Pick<LibrariesFlags, 'file' | 'only'>, io: Io): LibraryRef {
  const [library, other] = namesOf(flags, io);
  if (library === undefined || other !== undefined)
    throw new InputError('--replay: say with which one, by --only or --file');
  return library;
}
