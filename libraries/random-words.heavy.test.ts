import { randomFillSync } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { expectSafe, type MakeLock } from './testing.js';

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

/** Random bytes that outlast a run, as nanoid keeps them. */
const pool = Buffer.alloc(2_688);
let at = pool.length;

function token(): string {
  if (at === pool.length) {
    randomFillSync(pool);
    at = 0;
  }
  at += 8;
  return pool.toString('hex', at - 8, at);
}

/** Waits for times so exact that the last digits of `Math.random` count. */
const pooled: MakeLock = ({ nodes: [redis] }) => ({
  async acquire(resource, ttlMs) {
    for (let tries = 0; tries < 4; tries++) {
      const own = token();
      if ((await redis.set(resource, own, 'PX', ttlMs, 'NX')) === 'OK')
        return { release: () => redis.eval(RELEASE, 1, resource, own) };
      await new Promise((resolve) => setTimeout(resolve, Math.floor(1e9 * Math.random()) % 200));
    }
    return null;
  },
});

it('random bytes that a module keeps beyond a run shift no other random number', async () => {
  const { runs } = await expectSafe(pooled, { nodes: 1, runs: 40, reportTo: mkdtempSync(join(tmpdir(), 'lockstep-')) });
  expect(runs).toBe(40);
});
