import { spawn } from 'node:child_process';
import { basename, resolve } from 'node:path';
import { htmlReport } from '../report/html.js';
import { type RecordingInput, type ReportInput, recordingOf, reportOf } from '../report/index.js';
import type { Io } from './io.js';
import { fileName, writeIfPossible, writeNamed } from './write-file.js';

/** Where reports go that nobody named a place for, below the working directory. */
const REPORTS = '.lockstep/reports';

/** Where a report goes that a person named: a page as it is, beside a file of JSON, else among the reports. */
export function reportPath(name: string): string {
  if (name.endsWith('.html')) return name;
  return name.endsWith('.json') ? besideFile(name) : `${REPORTS}/${name}.html`;
}

/** Where the report on a file goes that a person named. */
export function besideFile(path: string): string {
  return `${path.replace(/\.json$/, '')}.html`;
}

/** Where the report goes of what has this name in a file: it decides nothing but the name of the page. */
export function amongReports(id: string): string {
  return `${REPORTS}/${fileName(id)}.html`;
}

/** The files of a report: the page, and beside it, where the run is too long for one, a file with all of it. */
function filesOf(path: string, input: ReportInput): readonly (readonly [path: string, content: string | Uint8Array])[] {
  const name = `${path.replace(/\.html$/, '')}.trace`;
  const { payload, beside } = reportOf(input, basename(name));
  const page = [path, htmlReport(payload)] as const;
  return beside === null ? [page] : [[name, beside], page];
}

/**
 * Writes the report of a run below the working directory.
 *
 * @returns The path of the page from there; `null` if it could not be written, which has been said.
 */
export function writeReport(path: string, input: ReportInput, io: Io): string | null {
  const isWritten = filesOf(path, input).every(([name, content]) => writeIfPossible(name, content, io) !== null);
  return isWritten ? path : null;
}

/** The same for the page of a recording. */
export function writeRecording(path: string, input: RecordingInput, io: Io): string | null {
  return writeIfPossible(path, htmlReport(recordingOf(input)), io);
}

/**
 * Writes the report of a run, says where it is, and shows it.
 *
 * @throws InputError if it cannot be written: it is all that was asked for.
 */
export function showReport(path: string, input: ReportInput, io: Io): void {
  for (const [name, content] of filesOf(path, input)) writeNamed('--open', name, content, io.cwd);
  showPage(path, io);
}

/** The same for the page of a recording. */
export function showRecording(path: string, input: RecordingInput, io: Io): void {
  showPage(writeNamed('--open', path, htmlReport(recordingOf(input)), io.cwd), io);
}

function showPage(path: string, io: Io): void {
  io.stdout.write(`${path}\n`);
  if (io.env.LOCKSTEP_OPEN !== 'no') openFile(path, io.cwd);
}

/** The command that opens a file in whatever shows such files. */
function opener(platform: NodeJS.Platform): readonly [command: string, ...args: string[]] {
  if (platform === 'darwin') return ['open'];
  return platform === 'win32' ? ['cmd', '/c', 'start', ''] : ['xdg-open'];
}

/**
 * Opens a file for the person; that there is nothing to open it with is no error, since its path was printed.
 *
 * @param path - From `cwd`, or the address of a file.
 */
export function openFile(path: string, cwd: string): void {
  const [command, ...args] = opener(process.platform);
  const child = spawn(command, [...args, path.startsWith('file:') ? path : resolve(cwd, path)], {
    detached: true,
    stdio: 'ignore',
  });
  child.on('error', () => {});
  child.unref();
}
