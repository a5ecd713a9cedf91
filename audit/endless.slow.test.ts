import { expect, it } from 'vitest';
import { audited } from './testing/audited.js';

/** Copies pages of what a shop sells, until there is none: `before` is done before each. */
const copying = (ttlMs: number, before = ''): string => `
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class Copying {
  constructor(private readonly redis: Redis, private readonly shop: Shop, private readonly index: Index) {}
  async copy(shopId: string): Promise<void> {
    const token = randomUUID();
    const from = performance.now();
    if ((await this.redis.set(\`copy:\${shopId}\`, token, 'PX', ${ttlMs}, 'NX')) !== 'OK') return;
    try {
      let cursor: string | null = 'first';
      while (cursor !== null) {
        ${before}
        const page = await this.shop.list(shopId, cursor);
        await this.index.replaceAll(shopId, page.products);
        cursor = page.next;
      }
    } finally {
      await this.redis.eval(RELEASE, 1, \`copy:\${shopId}\`, token);
    }
  }
}`;

it('finds work that goes on after its TTL for as long as there is a next page', async () => {
  const { ids, findings } = await audited(copying(15_000));
  expect(ids).toEqual(['work-outlasts-ttl']);
  expect(findings[0]).toMatch(
    /^Copying\.copy goes on until nothing is left to do, and its key lives for 15 s .* it still calls .*replaceAll 1[56][\d.]* s after/,
  );
});

it.each([
  [
    'it looks at the time before each page',
    copying(15_000, "if (performance.now() - from > 12_000) throw new Error('late');"),
  ],
  ['its TTL leaves time for much work', copying(900_000)],
  ['it copies one page', copying(15_000).replace('cursor = page.next;', 'break;')],
])('finds nothing where %s', async (_, text) => {
  expect((await audited(text)).ids).toEqual([]);
});
