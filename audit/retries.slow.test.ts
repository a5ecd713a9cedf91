import { expect, it } from 'vitest';
import { audited } from './testing/audited.js';

/** It asks for what it books up to five times, after waits of 1, 2, 4 and 8 s. */
const booking = (ttlMs: number, checks = ''): string => `
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class Booking {
  constructor(private readonly redis: Redis, private readonly bank: Bank, private readonly ledger: Ledger) {}
  private async withRetry<T>(call: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try { return await call(); }
      catch (error) { if (attempt === 4) throw error; }
      await sleep(1_000 * 2 ** attempt);
    }
  }
  async book(accountId: string): Promise<boolean> {
    const token = randomUUID();
    const from = performance.now();
    if ((await this.redis.set(\`book:\${accountId}\`, token, 'PX', ${ttlMs}, 'NX')) !== 'OK') return false;
    try {
      const page = await this.withRetry(() => this.bank.statement(accountId));
      ${checks}
      await this.ledger.insert(accountId, page);
      return true;
    } finally {
      await this.redis.eval(RELEASE, 1, \`book:\${accountId}\`, token);
    }
  }
}`;

it('finds work that tries a call again for longer than its TTL', async () => {
  const { ids, findings } = await audited(booking(10_000));
  expect(ids).toEqual(['work-outlasts-ttl']);
  expect(findings[0]).toMatch(/where that has failed 4 times, it is called again 15 s after the lock was granted/);
});

it.each([
  ['its TTL is longer', booking(20_000)],
  [
    'it looks at the time before it stores',
    booking(10_000, "if (performance.now() - from > 8_000) throw new Error('late');"),
  ],
])('finds nothing where %s', async (_, text) => {
  expect((await audited(text)).ids).toEqual([]);
});

it('counts the time limit of each try, and takes none for another call of its process', async () => {
  const limited = (ttlMs: number, call: string): string =>
    booking(ttlMs).replace('statement(accountId)', `${call}(accountId, { signal: AbortSignal.timeout(5_000) })`);
  const { ids, findings } = await audited(limited(30_000, 'getStatement'));
  expect(ids).toEqual(['work-outlasts-ttl']);
  expect(findings[0]).toMatch(/where that has failed 4 times, it is called again 35 s after the lock was granted/);
  expect((await audited(limited(60_000, 'getStatement'))).ids).toEqual([]);
  expect((await audited(limited(60_000, 'statement'))).ids).toEqual([]);
});

it('takes the signal of a caller for no time limit', async () => {
  const stopped = booking(20_000)
    .replace('statement(accountId)', 'getStatement(accountId, { signal: this.stopping.signal })')
    .replace('  constructor(', '  private readonly stopping = new AbortController();\n  constructor(');
  expect((await audited(stopped)).ids).toEqual([]);
});
