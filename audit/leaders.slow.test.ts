import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

/** A service that leads by a timer, and trades as long as it does. */
const trader = (renews: string): string => `
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const KEY = 'trader:leader';
const RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
export class Trader {
  private readonly id = randomUUID();
  private leads = false;
  constructor(private readonly redis: Redis, private readonly market: { buy(): Promise<void> }) {}
  onModuleInit(): void { setInterval(() => void this.tick(), 3_000); }
  private async tick(): Promise<void> {
    if (this.leads) { ${renews} }
    else this.leads = (await this.redis.set(KEY, this.id, 'PX', 9_000, 'NX')) === 'OK';
    if (this.leads) await this.market.buy();
  }
}`;

it('finds a leader that ignores a renewal that is refused', async () => {
  expect(await idsOf(trader('await this.redis.eval(RENEW, 1, KEY, this.id, 9_000);'))).toEqual(['silent-loss']);
});

it('finds a leader that renews the key of the next one', async () => {
  expect(await idsOf(trader('this.leads = (await this.redis.pexpire(KEY, 9_000)) === 1;'))).toEqual([
    'blind-extension',
  ]);
});

it('finds nothing where a leader ends its term as its renewal is refused', async () => {
  expect(await idsOf(trader('this.leads = (await this.redis.eval(RENEW, 1, KEY, this.id, 9_000)) === 1;'))).toEqual([]);
});

it('tries what a file begins when its client has connected', async () => {
  const text = `${trader('this.leads = (await this.redis.pexpire(KEY, 9_000)) === 1;').replace('import type', 'import')}
const redis = new Redis(process.env.REDIS_URL!, { enableOfflineQueue: false });
const trader = new Trader(redis, { buy: async () => { await fetch('http://market/buy', { method: 'POST' }); } });
redis.once('ready', () => trader.onModuleInit());`;
  expect(await idsOf(text)).toContain('blind-extension');
});
