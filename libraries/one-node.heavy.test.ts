import { randomUUID } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { caught } from './testing/expecting.js';
import { expectSafe, type MakeLock } from './testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

/** The pattern of redis.io's page on SET: a token, a TTL, and a script that compares before it deletes. */
const asDocumented =
  (changes: { readonly deletesAny?: boolean; readonly ttlFactor?: number; readonly tries?: number } = {}): MakeLock =>
  ({ nodes: [redis] }) => ({
    async acquire(resource, ttlMs) {
      const keptMs = Math.floor(ttlMs * (changes.ttlFactor ?? 1));
      for (let tries = changes.tries ?? 1; tries > 0; tries--) {
        const token = randomUUID();
        if ((await redis.set(resource, token, 'PX', keptMs, 'NX')) === 'OK')
          return {
            release: () => (changes.deletesAny ? redis.del(resource) : redis.eval(RELEASE, 1, resource, token)),
          };
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      return null;
    },
  });

it.each([1, 4])(
  'a lock on one node that says nothing of its time passes with %i tries, and its limits are noted',
  async (tries) => {
    const { runs, claims, notes } = await expectSafe(asDocumented({ tries }), { nodes: 1, reportTo });
    expect(runs).toBe(100);
    expect(claims).toBeGreaterThan(300);
    expect(notes).toEqual([
      expect.stringMatching(/^acquire waits for as long as its connections do/),
      expect.stringMatching(/^where the answer to its command is lost, its key stays until the TTL ends/),
      expect.stringMatching(/^where the answer to its command comes after the TTL, it hands over a lock that is over/),
    ]);
  },
);

it.each([
  ['deletes the key of another', { deletesAny: true }],
  ['keeps its key for less than was asked for', { ttlFactor: 0.5 }],
])('one that %s does not', async (_, changes) => {
  const error = await caught(expectSafe(asDocumented(changes), { nodes: 1, reportTo }));
  expect(error.message).toMatch(/\(kind (belief|state), /);
});

it('on several nodes it does not pass as a lock of one: nobody asked a majority', async () => {
  const error = await caught(expectSafe(asDocumented(), { reportTo }));
  expect(error.message).toContain('did you mean nodes: 1?');
});
