import { basename } from 'node:path';
import type { MatrixRow } from '../campaign/matrix.js';
import { LIBRARIES, OLDER_VERSIONS } from '../guests/libraries/index.js';
import { guestPage } from '../guests/recording.js';
import { FAULT_CLASSES } from '../guests/search/fault-classes.js';
import { type GuestName, REPLAY, showGuest } from '../guests/torture.js';
import { htmlReport } from '../report/html.js';
import { type RecordingInput, recordingOf } from '../report/index.js';
import { parseScheduleText } from '../scenarios/index.js';
import { InputError } from '../scenarios/input-error.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { writeGuestSchedule } from './failure-file.js';
import type { GuestsFlags } from './flags.js';
import { known, ownGuest } from './guest-names.js';
import { failureName, matrixText, type Written } from './guests-text.js';
import { type Io, writeJson } from './io.js';
import { ProgressLine } from './progress.js';
import { readText } from './read-text.js';
import { reportPath, showRecording, writeRecording } from './report-file.js';
import { workersOf } from './workers.js';

const RUNS = 50;
const SEED = 'lockstep';

/** Tortures npm lock libraries, or one of the user's own. */
export async function guests(flags: GuestsFlags, io: Io): Promise<ExitCode> {
  const names = namesOf(flags, io);
  if (flags.replay !== undefined) return replay(flags, names, io);
  const faults = flags.faults ?? FAULT_CLASSES.map(({ id }) => id);
  known(
    faults,
    FAULT_CLASSES.map(({ id }) => id),
    '--faults',
  );
  const { runs = RUNS, seed = SEED, shrink } = flags;
  const line = new ProgressLine(io);
  const all = names.length * faults.length;
  const { runMatrix } = await import('../campaign/matrix.js');
  const rows = await runMatrix(
    names,
    faults,
    { runs, seed, shrink },
    {
      workers: await workersOf(flags.workers),
      signal: io.signal,
      onCells: (id, done) => line.show(`${id}: ${done} of ${all} cells`),
    },
  );
  line.end();
  const written = shrink ? writeAll(rows, flags, io) : new Map<string, string>();
  if (flags.json) writeJson(io, 'lockstep.guests/1', { seed, runs, rows: jsonRows(rows, written) });
  else
    io.stdout.write(
      matrixText(rows, written, (row, fault, path) => replayOf(row, isExtending(fault), path, flags, io)),
    );
  for (const { id } of rows.filter(isIdle)) {
    io.stderr.write(`lockstep: ${id} has never acquired the lock, so nothing was tested\n`);
  }
  return exitOf(rows, flags, io);
}

/** Whether its client never got a lock, so that none could be broken. */
function isIdle({ cells }: MatrixRow): boolean {
  return cells.length > 0 && cells.every(({ claims }) => claims === 0);
}

function exitOf(rows: readonly MatrixRow[], flags: GuestsFlags, io: Io): ExitCode {
  if (io.signal.aborted) return Exit.interrupted;
  if (rows.some((row) => row.error !== null || isIdle(row))) return Exit.inconclusive;
  const inside = rows.some(({ cells }) => cells.some((cell) => cell.inside > 0));
  return flags.library !== undefined && inside ? Exit.violated : Exit.ok;
}

function namesOf({ library, libraries }: GuestsFlags, io: Io): GuestName[] {
  if (library !== undefined) {
    return [ownGuest(library, io.cwd, '--library')];
  }
  const ids = LIBRARIES.map(({ id }) => id);
  known(libraries ?? [], [...ids, ...OLDER_VERSIONS.map(({ id }) => id)], '--libraries');
  return (libraries ?? ids).map((id) => ({ id }));
}

function writeAll(rows: readonly MatrixRow[], flags: GuestsFlags, io: Io): Written {
  const written = new Map<string, string>();
  for (const { id, cells } of rows) {
    for (const { fault, failures } of cells) {
      for (const failure of failures) {
        const name = failureName(id, fault, failure.kind);
        const path = writeGuestSchedule(failure.schedule, name, io.cwd);
        written.set(name, path);
        const again = replayOf(id, isExtending(fault), path, flags, io);
        writeRecording(reportPath(path), guestPage(id, name, failure, again), io.cwd);
      }
    }
  }
  return written;
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

/** The command that shows a schedule with a library. */
function replayOf(row: string, extending: boolean, path: string, { library }: GuestsFlags, io: Io): string {
  const which = library === undefined ? `--libraries ${row}` : `--library ${library}`;
  return `${io.command} guests --replay ${path} ${which}${extending ? ' --extending' : ''}`;
}

async function replay(flags: GuestsFlags, names: readonly GuestName[], io: Io): Promise<ExitCode> {
  const [guest, other] = names;
  if (guest === undefined || other !== undefined)
    throw new InputError('--replay: say with which one, by --libraries or --library');
  const file = flags.replay ?? '';
  const schedule = parseScheduleText(readText(file, io.cwd, 'a schedule', '.lockstep/guests'), file);
  const extending = flags.extending ?? false;
  const shown = await showGuest(guest, schedule, extending);
  const again = replayOf(guest.id, extending, file, flags, io);
  const page = (): RecordingInput => guestPage(guest.id, basename(file, '.json'), shown, again);
  if (flags.json)
    writeJson(io, 'lockstep.guest-replay/1', { library: guest.id, hash: shown.hash, violations: shown.violations });
  else if (flags.open) showRecording(reportPath(file), page(), io);
  else if (flags.format === 'html') io.stdout.write(htmlReport(recordingOf(page())));
  else if (shown.texts.length === 0) io.stdout.write(`${guest.id} keeps to everything on this schedule.\n`);
  else io.stdout.write(shown.texts.join('\n').replaceAll(REPLAY, again));
  return shown.violations.length > 0 ? Exit.violated : Exit.ok;
}
