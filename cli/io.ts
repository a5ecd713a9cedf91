import { existsSync } from 'node:fs';
import { basename, join, relative, sep } from 'node:path';
import type { ExitCode } from './exit-codes.js';

/** Where text goes. */
export interface TextOut {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
  /** Width of the terminal, characters. */
  readonly columns?: number | undefined;
}

/** The outer world of one run of the command; tests have their own. */
export interface Io {
  readonly stdout: TextOut;
  readonly stderr: TextOut;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Found failures are written below it. */
  readonly cwd: string;
  /** Asked to stop with what there is. */
  readonly signal: AbortSignal;
  /** How a person calls this command here, for commands that are printed and must work as pasted. */
  readonly command: string;
}

/** Whether to colour what goes to stdout. */
export function hasColour(io: Io): boolean {
  if (io.env.NO_COLOR !== undefined && io.env.NO_COLOR !== '') return false;
  return io.stdout.isTTY === true && io.env.TERM !== 'dumb';
}

const USUAL_WIDTH = 88;
const LEAST_WIDTH = 40;
const MOST_WIDTH = 120;

/** How wide text on stdout may be: the terminal's width within reason, or that of what is pasted into an issue. */
export function widthOf({ stdout, env }: Io): number {
  const asked = Number(env.COLUMNS ?? '');
  const width = stdout.columns ?? (Number.isInteger(asked) && asked > 0 ? asked : USUAL_WIDTH);
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
  return isCheckout ? 'npm run -s lockstep --' : `node ${relative(cwd, script)}`;
}
