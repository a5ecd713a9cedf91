import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';
import type { FoundBefore } from './result.js';
import { audited } from './testing/audited.js';

/** A schedule that right locks were once condemned for. */
interface OnceCondemned extends FoundBefore {
  readonly why: string;
  /** In `test/wild`. */
  readonly file: string;
}

const ONCE_CONDEMNED = JSON.parse(
  readFileSync(new URL('testing/once-condemned.json', import.meta.url), 'utf8'),
) as OnceCondemned[];

const pathOf = (file: string): string => new URL(`../test/wild/${file}`, import.meta.url).pathname;

it.each(ONCE_CONDEMNED)('does not condemn a right lock for $why', async ({ file, ...replay }) => {
  const plan = { path: pathOf(file), runs: 1, seed: '', budgetMs: 20_000, replay };
  await expect(auditFile(plan, () => {})).resolves.toMatchObject({ findings: [] });
});

it('finds a lock in the same schedule that never sends a release to the last node', async () => {
  const [{ file, ...replay }] = ONCE_CONDEMNED as [OnceCondemned];
  const text = readFileSync(pathOf(file), 'utf8').replace(
    /masters\.map\(\(master\) => within\(PER_NODE_MS, master\.eval/,
    (it) => it.replace('masters', 'masters.slice(0, -1)'),
  );
  expect((await audited(text, 1, 'lock.ts', replay)).ids).toEqual(['leaves-key']);
});

it('does not say of who waits for a message that it asks for the lock', async () => {
  const plan = { path: pathOf('twenty-third/invoice-consumer.ts'), runs: 6, seed: 'audit', budgetMs: 60_000 };
  await expect(auditFile(plan, () => {})).resolves.toMatchObject({ findings: [] });
});
