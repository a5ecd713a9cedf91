import { type HistoryVerdict, verifyHistory } from '../properties/history/verify.js';
import { plural } from '../report/words.js';
import { InputError } from '../scenarios/input-error.js';
import { Exit, type ExitCode } from './exit-codes.js';
import { type Io, writeJson } from './io.js';
import { readText } from './read-text.js';

const JSON_LINES = 'a file of JSON lines';

/** Flags of `verify`. */
export interface VerifyFlags {
  readonly json?: boolean;
}

const CODES: Readonly<Record<HistoryVerdict['verdict'], ExitCode>> = {
  passed: Exit.ok,
  violated: Exit.violated,
  inconclusive: Exit.inconclusive,
};

/** Findings shown to a person; the JSON has all. */
const MOST_SHOWN = 20;

/** Checks the history that a file holds. */
export function verify(path: string, flags: VerifyFlags, io: Io): ExitCode {
  const found = check(readText(path, io.cwd, `${JSON_LINES} that clients recorded`, JSON_LINES), path);
  if (flags.json) writeJson(io, 'lockstep.verify/1', found);
  else io.stdout.write(verifyText(found));
  return CODES[found.verdict];
}

function check(text: string, path: string): HistoryVerdict {
  try {
    return verifyHistory(text.replace(/^\ufeff/, '').split('\n'));
  } catch (error) {
    if (error instanceof InputError) throw new InputError(`${path}: ${error.message}`);
    throw error;
  }
}

function verifyText({ verdict, operations, violations, doubts }: HistoryVerdict): string {
  const mark = verdict === 'passed' ? '✓' : verdict === 'violated' ? '✗' : '?';
  const rows = [
    ...violations.map(({ property, lines, detail }) => `  ${place(lines)}${property}: ${detail}`),
    ...doubts.map(({ lines, detail }) => `  ${place(lines)}in doubt: ${detail}`),
  ];
  const more = rows.length - MOST_SHOWN;
  const shown = more > 0 ? [...rows.slice(0, MOST_SHOWN), `  … and ${more} more; --json has them all`] : rows;
  const summary = verdict === 'violated' ? `, ${plural(violations.length, 'violation')}` : '';
  return `${[`${mark} ${verdict}: ${plural(operations, 'operation')}${summary}`, ...shown].join('\n')}\n`;
}

function place(lines: readonly number[]): string {
  if (lines.length === 0) return '';
  return `${lines.length === 1 ? 'line' : 'lines'} ${lines.join(', ')}: `;
}
