import { type HistoryVerdict, verifyHistory } from '../properties/history/verify.js';
import { InputError } from '../scenarios/input-error.js';
import { plural } from '../text/format.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { VerifyFlags } from './flags.js';
import { type Io, writeJson } from './io.js';
import { readText } from './read-text.js';

const JSON_LINES = 'a file of JSON lines';

const CODES: Readonly<Record<HistoryVerdict['verdict'], ExitCode>> = {
  passed: Exit.ok,
  violated: Exit.violated,
  inconclusive: Exit.inconclusive,
};

/** Findings shown to a person; the JSON has all. */
const MOST_SHOWN = 20;

/** Checks the history that files hold together, each the whole story of its locks. */
export function verify(paths: readonly string[], flags: VerifyFlags, io: Io): ExitCode {
  const files = paths.map((path) => ({
    path,
    text: readText(path, io.cwd, `${JSON_LINES} that clients recorded`, JSON_LINES),
  }));
  const found = check(files, flags.clockError ?? 0);
  if (flags.json) writeJson(io, 'lockstep.verify/1', found);
  else io.stdout.write(verifyText(found));
  return CODES[found.verdict];
}

interface HistoryText {
  readonly path: string;
  readonly text: string;
}

/** Lines are numbered through all files, in their order. */
function check(files: readonly HistoryText[], clockErrorUs: number): HistoryVerdict {
  const lines: string[] = [];
  const ends: number[] = [];
  for (const { text } of files) {
    const own = text.replace(/^\ufeff/, '').split('\n');
    // What follows the last line end is no line, unless it is one that was cut off.
    if (own.at(-1) === '' && own.length > 1) own.pop();
    for (const line of own) lines.push(line);
    ends.push(lines.length);
  }
  try {
    return verifyHistory(lines, { clockErrorUs });
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    const number = Number(/^line (\d+)/.exec(error.message)?.[1] ?? 0);
    const at = Math.max(
      0,
      ends.findIndex((end) => number <= end),
    );
    const before = at === 0 ? 0 : (ends[at - 1] ?? 0);
    const message = error.message.replace(/^line \d+/, `line ${number - before}`);
    throw new InputError(`${files[at]?.path}: ${message}`);
  }
}

function verifyText(found: HistoryVerdict): string {
  const { verdict, operations, violations } = found;
  const mark = verdict === 'passed' ? '✓' : verdict === 'violated' ? '✗' : '?';
  const summary = verdict === 'violated' ? `, ${plural(violations.length, 'violation')}` : '';
  const head = `${mark} ${verdict}: ${plural(operations, 'operation')}${summary}`;
  return `${[head, ...findingLines(found, MOST_SHOWN)].join('\n')}\n`;
}

/** What a history shows, a line for each finding, and at most so many of them. */
export function findingLines(found: Pick<HistoryVerdict, 'violations' | 'doubts'>, most: number): string[] {
  const rows = [
    ...found.violations.map(({ property, lines, detail }) => `  ${place(lines)}${property}: ${detail}`),
    ...found.doubts.map(({ lines, detail }) => `  ${place(lines)}in doubt: ${detail}`),
  ];
  const more = rows.length - most;
  return more > 0 ? [...rows.slice(0, most), `  … and ${more} more; --json has them all`] : rows;
}

function place(lines: readonly number[]): string {
  if (lines.length === 0) return '';
  return `${lines.length === 1 ? 'line' : 'lines'} ${lines.join(', ')}: `;
}
