import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

/** A service, of which a process has one, that waits for its lock. */
const service = (token: string): string => `
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class Coupons {
  private token = '';
  constructor(private readonly redis: Redis, private readonly store: { redeem(code: string): Promise<void> }) {}
  async redeem(code: string): Promise<void> {
    const key = 'coupon:' + code;
    ${token} = randomUUID();
    for (let i = 0; (await this.redis.set(key, ${token.replace('const ', '')}, 'PX', 20_000, 'NX')) !== 'OK'; i++) {
      if (i === 300) throw new Error('busy');
      await sleep(100);
    }
    try { await this.store.redeem(code); } finally { await this.redis.eval(UNLOCK, 1, key, ${token.replace('const ', '')}); }
  }
}`;

it('finds a token that calls of one object overwrite', async () => {
  expect(await idsOf(service('this.token'))).toEqual(['shared-state']);
});

it('finds nothing where each call has its own', async () => {
  expect(await idsOf(service('const token'))).toEqual([]);
});

it('says of calls that share one member of a set that they take one place', async () => {
  const { ids, findings } = await audited(
    `import Redis from 'ioredis';
import { Semaphore } from 'redis-semaphore';
const redis = new Redis(process.env.REDIS_URL!);
const sessions = new Semaphore(redis, 'sessions', Number(process.env.MAX_SESSIONS ?? 4), { lockTimeout: 60_000, refreshInterval: 0 });
export async function withSession<T>(work: () => Promise<T>): Promise<T> {
  await sessions.acquire();
  try {
    return await work();
  } finally {
    await sessions.release().catch(() => undefined);
  }
}`,
    12,
  );
  expect(ids).toContain('value-of-process');
  expect(findings.join()).toContain('they are one member of the set');
});
