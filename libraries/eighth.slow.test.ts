import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { MakeLock } from './lock-under-test.js';
import { expectSafe, UnsafeLockError } from './testing.js';

interface Client {
  readonly file: string;
  readonly verdict: 'right' | 'wrong';
  /** Of a wrong one: a sentence. */
  readonly defect?: string;
  /** Why the default call does not come to this verdict. */
  readonly open?: string;
}

const FOLDER = new URL('../test/wild/eighth/', import.meta.url);
const { clients } = JSON.parse(readFileSync(new URL('verdicts.json', FOLDER), 'utf8')) as { clients: Client[] };

/** Those that took a class of faults, or a judge, of their own; of the others one in so many. `EIGHTH=all` takes all. */
const HARD = ['beacon', 'cedar', 'comet', 'flint', 'kelp', 'lantern'];
const STRIDE = 12;

const tried = clients.filter(
  ({ file, open }, at) =>
    open === undefined && (process.env.EIGHTH === 'all' || HARD.includes(file.replace('.ts', '')) || at % STRIDE === 0),
);

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));

it.each(tried)('the default call finds that $file is $verdict', async ({ file, verdict }) => {
  const { make } = (await import(new URL(file, FOLDER).href)) as { make: MakeLock };
  const passes = await expectSafe(make, { reportTo }).then(
    () => true,
    (error: Error) => {
      if (error instanceof UnsafeLockError || error.message.includes('threw where nobody caught it')) return false;
      throw error;
    },
  );
  expect(passes).toBe(verdict === 'right');
});
