import { spawn } from 'node:child_process';
import { basename, resolve } from 'node:path';
import { htmlReport } from '../report/html.js';
import { type RecordingInput, type ReportInput, recordingOf, reportOf } from '../report/index.js';
import type { Io } from './io.js';
import { writeWhole } from './write-file.js';

/** Where reports go that nobody named a place for, below the working directory. */
export const REPORTS = '.lockstep/reports';

/** Where the report of a run goes: beside its file if it is one, where a person said, else among the reports. */
export function reportPath(name: string): string {
  if (name.endsWith('.html')) return name;
  return name.endsWith('.json') ? name.replace(/\.json$/, '.html') : `${REPORTS}/${name}.html`;
}

/**
 * Writes the report of a run below `cwd`, and beside it, where the run is too long for a page, a file with all of it.
 *
 * @returns The path of the page from `cwd`.
 */
export function writeReport(path: string, input: ReportInput, cwd: string): string {
  const name = `${path.replace(/\.html$/, '')}.trace`;
  const { payload, beside } = reportOf(input, basename(name));
  if (beside !== null) writeWhole(name, beside, cwd);
  return writeWhole(path, htmlReport(payload), cwd);
}

/** Writes the page of a recording below `cwd`; returns its path. */
export function writeRecording(path: string, input: RecordingInput, cwd: string): string {
  return writeWhole(path, htmlReport(recordingOf(input)), cwd);
}

/** Writes the report of a run, says where it is, and shows it. */
export function showReport(input: ReportInput, io: Io): void {
  showPage(writeReport(reportPath(input.id), input, io.cwd), io);
}

/** Writes the page of a recording, says where it is, and shows it. */
export function showRecording(path: string, input: RecordingInput, io: Io): void {
  showPage(writeRecording(path, input, io.cwd), io);
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

/** Opens a file for the person; that there is nothing to open it with is no error, since its path was printed. */
function openFile(path: string, cwd: string): void {
  const [command, ...args] = opener(process.platform);
  const child = spawn(command, [...args, resolve(cwd, path)], { detached: true, stdio: 'ignore' });
  child.on('error', () => {});
  child.unref();
}
