import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

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
