import { appendFileSync } from 'node:fs';
import type { Io } from '../io.js';
import { annotations, jobSummary } from './github.js';
import { junitXml } from './junit.js';
import type { Reporter, Suite } from './outcome.js';

/** Tells what came of a verb, for those reporters that have no form of their own in it. */
export function tellSuite(reporter: Reporter, suite: Suite, io: Io): void {
  switch (reporter) {
    case 'junit':
      io.stdout.write(junitXml(suite));
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
    const reason = error instanceof Error ? error.message : String(error);
    io.stderr.write(`lockstep: the job summary could not be written: ${reason}\n`);
  }
}
