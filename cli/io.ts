import { existsSync } from 'node:fs';
import { basename, join, relative, sep } from 'node:path';
import { ANSI_SEQUENCES } from '../report/painter.js';
import type { ReportInput } from '../report/payload-of.js';
import { printable, printableLines } from '../text/printable.js';
import { withoutPasswords } from '../text/secrets.js';
import { shellWord } from '../text/shell.js';
import type { ExitCode } from './exit-codes.js';

/** Where text goes. */
interface TextOut {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
  /** Width of the terminal, characters. */
  readonly columns?: number | undefined;
}

/** The outer world of one run of the command; tests have their own. */
export interface Io {
  readonly stdout: TextOut;
  readonly stderr: TextOut;
  /** Where answers come from; nothing can be asked where it is left out or is no terminal. */
  readonly stdin?: NodeJS.ReadableStream & { readonly isTTY?: boolean | undefined };
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Found failures are written below it. */
  readonly cwd: string;
  /** Asked to stop with what there is. */
  readonly signal: AbortSignal;
  /** How a person calls this command here, for commands that are printed and must work as pasted. */
  readonly command: string;
  /** The command as it was called, for pages that say how they were made; without passwords. */
  readonly again?: string;
  /** Writes the page of a counterexample and returns its path, or `null`. Default: a whole page, which takes seconds to make. */
  readonly writeReport?: (path: string, input: ReportInput, io: Io) => string | null;
}

/** Begins a line on a terminal again. */
export const CLEAR_LINE = '\r\u001b[2K';

/** What this command itself sends to a terminal: colours, and the beginning of a line that is written over. */
const OWN: RegExp = new RegExp(`(${[CLEAR_LINE, ...ANSI_SEQUENCES].map((it) => it.replace('[', '\\[')).join('|')})`);

/**
 * The way out to people: `out`, to which nothing gets that a terminal obeys, but for what is this command's own. Names and
 * texts of others come from files that anybody may have written.
 */
export function printableOut(out: TextOut): TextOut {
  return {
    write: (text) => {
      const own = out.isTTY === true ? text.split(OWN) : [text];
      return out.write(own.map((part, i) => (i % 2 === 1 ? part : printableLines(part))).join(''));
    },
    get isTTY() {
      return out.isTTY;
    },
    get columns() {
      return out.columns;
    },
  };
}

const LONGEST_SENTENCE = 1_000;

/** Says one sentence on stderr, whatever is in it: in one line, without passwords, and not too long. */
export function say(io: Io, sentence: string): void {
  io.stderr.write(`lockstep: ${printable(withoutPasswords(sentence), LONGEST_SENTENCE)}\n`);
}

/** Whether to colour what goes to stdout. */
export function hasColour(io: Io): boolean {
  if (io.env.NO_COLOR !== undefined && io.env.NO_COLOR !== '') return false;
  return io.stdout.isTTY === true && io.env.TERM !== 'dumb';
}

const USUAL_WIDTH = 88;
const LEAST_WIDTH = 40;
const MOST_WIDTH = 120;

/** How wide text on stdout may be: the terminal's width within reason; else `usual`, that of what is pasted into an issue. */
export function widthOf({ stdout, env }: Io, usual: number = USUAL_WIDTH): number {
  const asked = Number(env.COLUMNS ?? '');
  const width = stdout.columns ?? (Number.isInteger(asked) && asked > 0 ? asked : usual);
  return Math.min(MOST_WIDTH, Math.max(LEAST_WIDTH, width));
}

/** Writes one JSON object and nothing else, with its schema first. */
export function writeJson(io: Io, schema: string, fields: object): void {
  io.stdout.write(`${JSON.stringify({ schema, ...fields }, null, 2)}\n`);
}

/** Where a verb leaves its exit code. */
export type Finish = (code: ExitCode) => void;

/**
 * How a person calls the command whose script is at `script`: by its name where it is installed, through npm in a
 * checkout, else as a file.
 */
export function commandFor(script: string, cwd: string): string {
  if (basename(script) === 'lockstep') return script.includes(`${sep}node_modules${sep}`) ? 'npx lockstep' : 'lockstep';
  const isCheckout = script === join(cwd, 'dist', 'cli', 'main.js') && existsSync(join(cwd, 'package.json'));
  return isCheckout ? 'npm run -s lockstep --' : `node ${shellWord(relative(cwd, script))}`;
}
