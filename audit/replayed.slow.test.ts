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

it('finds a call that waits for a dead node for ever, where one that gives it up passes', async () => {
  const { file, ...replay } = ONCE_CONDEMNED.find(({ why }) => why.includes('gives up a dead node')) as OnceCondemned;
  const text = `import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const urls = ['redis://10.0.0.1:6379', 'redis://10.0.0.2:6379', 'redis://10.0.0.3:6379'];
const clients = await Promise.all(urls.map((url) => createClient({ url }).on('error', () => {}).connect()));
export async function acquire(resource, ttl) {
  const token = randomUUID();
  const begin = performance.now();
  const answers = await Promise.allSettled(clients.map((it) => it.set(resource, token, { NX: true, PX: ttl })));
  const won = answers.filter(({ value }) => value === 'OK').length;
  if (won >= 2 && performance.now() - begin < ttl * 0.98) return { resource, token };
  await release({ resource, token });
  return null;
}
export async function release({ resource, token }) {
  await Promise.allSettled(clients.map((it) => it.eval(RELEASE, { keys: [resource], arguments: [token] })));
}`;
  expect((await audited(text, 1, 'lock.mjs', replay)).ids).toEqual(['hang']);
});
