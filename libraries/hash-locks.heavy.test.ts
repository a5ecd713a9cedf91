import { randomUUID } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { caught } from './testing/expecting.js';
import { expectSafe, type MakeLock, UnsafeLockError } from './testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));

const ACQUIRE = `if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return 0 end
redis.call('hincrby', KEYS[1], ARGV[2], 1)
redis.call('pexpire', KEYS[1], ARGV[1])
return 1`;
const RELEASE = `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 0 end
return redis.call('del', KEYS[1])`;

/** A lock that is a hash, whose field names its holder; its work uses a list and a hash. */
const hashLock =
  (deletesAny: boolean): MakeLock =>
  ({ nodes: [redis] }) => ({
    async acquire(resource, ttlMs) {
      const token = randomUUID();
      const until = performance.now() + ttlMs * 0.98 - 5;
      const release = () => (deletesAny ? redis.del(resource) : redis.eval(RELEASE, 1, resource, token));
      const reply = await redis.eval(ACQUIRE, 1, resource, ttlMs, token).catch(async (error: Error) => {
        // It may have been set all the same.
        await redis.eval(RELEASE, 1, resource, token).catch(() => {});
        throw error;
      });
      if (reply !== 1) return null;
      if (performance.now() >= until) {
        await release();
        return null;
      }
      redis.rpush('log', token, 'work').catch(() => {});
      redis.hincrby('counts', 'work', 1).catch(() => {});
      return { isHeld: () => performance.now() < until, release };
    },
  });

it('finds nothing against a lock that is a field of a hash', async () => {
  expect(await expectSafe(hashLock(false), { nodes: 1, reportTo })).toMatchObject({ runs: 100 });
});

it('finds that one deletes the hash of another, and names the command', async () => {
  const error = await caught(expectSafe(hashLock(true), { nodes: 1, reportTo }));
  if (!(error instanceof UnsafeLockError)) throw error;
  expect(error.kind).toBe('belief');
  expect(error.message).toMatch(/c\d deleted B, which was not its\s+own/);
  expect(error.message).toMatch(/decided by .*hash-locks\.heavy\.test\.ts:\d+:\d+ {3}DEL a of c\d/);
});
