import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { lockstep, started } from '../campaign/testing/command.js';
import { Exit } from './exit-codes.js';
import { emptyFolder } from './testing/in-process.js';

it('tortures a library in a worker of its own, and says what came of it as one JSON object', async () => {
  const { code, stdout, stderr } = await lockstep(
    'guests',
    ...['--libraries', 'redlock5', '--faults', 'even,small', '--runs', '10', '--no-shrink', '--json'],
  );
  expect([code, stderr]).toEqual([Exit.ok, '']);
  const { schema, rows } = JSON.parse(stdout);
  expect(schema).toBe('lockstep.guests/1');
  expect(rows.map(({ fault, runs }: { fault: string; runs: number }) => [fault, runs])).toEqual([
    ['small', 10],
    ['even', 10],
  ]);
  // A tie among an even number of nodes is never settled.
  expect(rows[1].violations).toBeGreaterThan(0);
}, 120_000);

/** Takes whoever answers first for a majority, and deletes whatever key is there. */
const MINE = `import { randomUUID } from 'node:crypto';
export default ({ nodes }) => ({
  async acquire(resource: string, ttlMs: number) {
    const set = (node): Promise<unknown> => node.set(resource, randomUUID(), 'PX', ttlMs, 'NX');
    const replies = await Promise.allSettled(nodes.map(set));
    if (!replies.some((it) => it.status === 'fulfilled' && it.value === 'OK')) return null;
    const release = () => Promise.allSettled(nodes.map((node) => node.del(resource)));
    return { expiresAt: Date.now() + ttlMs, release };
  },
});
`;

it('tortures a lock in a file, and exits as for a violation where it breaks inside the assumptions', async () => {
  const file = join(emptyFolder(), 'my-lock.ts');
  writeFileSync(file, MINE);
  const { end } = started(['guests', '--library', file, '--faults', 'small', '--runs', '20', '--no-shrink', '--json']);
  const { code, stdout, stderr } = await end;
  expect([code, stderr]).toEqual([Exit.violated, '']);
  expect(JSON.parse(stdout).rows[0]).toMatchObject({ library: 'my-lock' });
}, 120_000);

it('does not pass a lock that is never acquired', async () => {
  const file = join(emptyFolder(), 'idle.mjs');
  writeFileSync(file, 'export default () => ({ acquire: () => null });');
  const { code, stderr } = await lockstep('guests', '--library', file, '--faults', 'small', '--runs', '5');
  expect(code).toBe(Exit.inconclusive);
  expect(stderr).toContain('idle has never acquired the lock, so nothing was tested');
}, 60_000);

it('says which file is not there', async () => {
  const { code, stderr } = await lockstep('guests', '--library', './nowhere.ts');
  expect(code).toBe(Exit.usage);
  expect(stderr).toContain('there is no file ./nowhere.ts');
}, 60_000);
