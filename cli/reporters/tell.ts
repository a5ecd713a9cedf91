import { appendFileSync } from 'node:fs';
import { printable, printableLines } from '../../text/printable.js';
import { type Io, say } from '../io.js';
import { version } from '../version.js';
import { reasonNotWritten } from '../write-file.js';
import { annotations, jobSummary } from './github.js';
import { junitXml } from './junit.js';
import type { Reporter, Suite } from './outcome.js';
import { sarifLog } from './sarif.js';

const LONGEST_NAME = 200;
const LONGEST_MESSAGE = 1_000;

/** Tells what came of a verb, for those reporters that have no form of their own in it. */
export function tellSuite(reporter: Reporter, given: Suite, io: Io): void {
  const suite = shown(given);
  switch (reporter) {
    case 'junit':
      io.stdout.write(junitXml(suite));
      return;
    case 'sarif':
      io.stdout.write(sarifLog(suite, version()));
      return;
    case 'minimal':
      io.stdout.write(minimal(suite));
      return;
    case 'github':
      io.stdout.write(annotations(suite));
      summarize(suite, io);
      return;
    case 'default':
    case 'json':
      return;
  }
}

/** A suite as it may be shown: what reads it passes it on to people. */
function shown({ cases, ...suite }: Suite): Suite {
  return {
    ...suite,
    cases: cases.map(({ name, message, text, file, ...it }) => ({
      ...it,
      name: printable(name, LONGEST_NAME),
      ...(message === undefined ? {} : { message: printable(message, LONGEST_MESSAGE) }),
      ...(text === undefined ? {} : { text: printableLines(text) }),
      ...(file === undefined ? {} : { file: printable(file) }),
    })),
  };
}

/** A line for each failure, and one for all. */
function minimal({ cases, summary }: Suite): string {
  const bad = cases.filter(({ result }) => result === 'failed' || result === 'undecided');
  const line = ({ name, result, message = '', file }: Suite['cases'][number]): string =>
    `${result === 'failed' ? '✗' : '?'} ${name}: ${message}${file === undefined ? '' : ` (${file})`}\n`;
  return `${bad.map(line).join('')}${bad.length === 0 ? '✓ ' : ''}${summary}\n`;
}

/** A summary that cannot be written must not hide a finding. */
function summarize(suite: Suite, io: Io): void {
  const path = io.env.GITHUB_STEP_SUMMARY;
  if (path === undefined || path === '') return;
  try {
    appendFileSync(path, jobSummary(suite));
  } catch (error) {
    say(io, `the job summary could not be written: ${reasonNotWritten(path, error)}`);
  }
}
