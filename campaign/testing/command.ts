import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

/** What a process of the command left behind. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The command as a process of the build, which `npm test` makes first: workers cannot run from the source. */
export function started(
  argv: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd: string = mkdtempSync(join(tmpdir(), 'lockstep-campaign-')),
): { readonly child: ChildProcess; readonly end: Promise<Ended>; readonly cwd: string } {
  const child = spawn(process.execPath, [MAIN, ...argv], {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const texts = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    texts.stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    texts.stderr += text;
  });
  return { child, end: once(child, 'close').then(([code]) => ({ code, ...texts })), cwd };
}

/** The same, when it has ended. */
export function lockstep(...argv: string[]): Promise<Ended> {
  return started(argv).end;
}
