import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

/** What the Promela model of a bounded world is built with. It has three nodes and two clients. */
export interface SpinBounds {
  readonly ttl: number;
  readonly allowance: number;
  readonly crashes: number;
  readonly delay: number;
  readonly drift: number;
}

/** What Spin says of it. */
interface SpinResult {
  readonly violated: boolean;
  readonly states: number;
  /** Of the search alone, without generating and compiling. */
  readonly seconds: number;
}

/** From the root of the repository, where its commands run: the build does not copy it. */
const MODEL = resolve('bench/spin/redlock.pml');

/** Whether Spin and a C compiler are here. */
export function hasSpin(): boolean {
  try {
    execFileSync('spin', ['-V'], { stdio: 'ignore' });
    execFileSync('gcc', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Checks the model with Spin, exhaustively. */
export function runSpin({ ttl, allowance, crashes, delay, drift }: SpinBounds): SpinResult {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-spin-'));
  const run = (command: string, ...args: string[]): string =>
    execFileSync(command, args, { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 24 });
  try {
    const defined = { TTL: ttl, ALLOWANCE: allowance, CRASHES: crashes, DELAY: delay, DRIFT: drift };
    run('spin', '-a', ...Object.entries(defined).map(([name, value]) => `-D${name}=${value}`), MODEL);
    run('gcc', '-O2', '-DSAFETY', '-o', 'pan', 'pan.c');
    const began = process.hrtime.bigint();
    const report = run('./pan', '-m1000000', '-w25');
    const seconds = Number(process.hrtime.bigint() - began) / 1e9;
    return { violated: !/errors: 0\b/.test(report), states: numberIn(report, /(\d+) states, stored/), seconds };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function numberIn(report: string, pattern: RegExp): number {
  const [, digits] = pattern.exec(report) ?? [];
  if (digits === undefined) throw new Error(`Spin said something else:\n${report}`);
  return Number(digits);
}
