import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Io } from '../io.js';
import { run } from '../run.js';
import { writeIfPossible } from '../write-file.js';

/** What one run of the command left behind. */
export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A folder of its own for found failures. */
export function emptyFolder(): string {
  return mkdtempSync(join(tmpdir(), 'lockstep-cli-'));
}

/** In the place of a page, which only tests of pages wait for. */
const NO_PAGE = 'a page';

/** Runs the command within this process. Unless `writeReport` is given, pages are empty. */
export async function lockstep(argv: readonly string[], given: Partial<Io> = {}): Promise<Ran> {
  const texts = { stdout: '', stderr: '' };
  const out = (name: keyof typeof texts, isTTY: boolean | undefined) => ({
    isTTY,
    write: (text: string) => {
      texts[name] += text;
    },
  });
  const code = await run(argv, {
    env: {},
    cwd: given.cwd ?? emptyFolder(),
    signal: new AbortController().signal,
    command: 'lockstep',
    writeReport: (path, _input, io) => writeIfPossible(path, NO_PAGE, io),
    ...given,
    stdout: { ...out('stdout', given.stdout?.isTTY), columns: given.stdout?.columns },
    stderr: out('stderr', given.stderr?.isTTY),
  });
  return { code, ...texts };
}
