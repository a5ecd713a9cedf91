import { expect, it } from 'vitest';
import { audited } from './testing/audited.js';

const locked = (imports: string, release: string): string => `import { randomUUID } from 'node:crypto';
${imports}
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function ship(id: string): Promise<void> {
  const key = 'order:' + id, token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') return;
  try { await orders.ship(id); } finally { ${release} }
}`;
const IMPORTS = "import { redis } from '../lib/redis';\nimport { orders } from './orders';";

it('stands for files that are not there, and says so', async () => {
  const { ids, understood } = await audited(locked(IMPORTS, 'await redis.eval(UNLOCK, 1, key, token);'));
  expect(ids).toEqual([]);
  expect(understood).toContain('../lib/redis: not there, and so not loaded; a client of Redis stands for it');
  expect(understood).toContain('./orders: not there, and so not loaded; what is called of it succeeds');
});

it('finds what is wrong with a lock by such a client', async () => {
  const open = locked(IMPORTS, 'await redis.eval(UNLOCK, 1, key, token);').replace(') return;', ') console.warn(id);');
  expect((await audited(open)).ids).toEqual(['fails-open']);
});

it('asks for a file that has a part of the lock', async () => {
  const text = `import { withLock } from './with-lock';
export const ship = (id: string) => withLock(id, async () => { await fetch('http://orders/' + id, { method: 'POST' }); });`;
  await expect(audited(text)).rejects.toThrow('lock.ts imports ./with-lock, which is not there');
});

it('does without the names by which a service is given its client', async () => {
  const service = locked("import { Inject } from '@nestjs/common';\nimport { ORDERS, REDIS } from '../tokens';", '')
    .replace(
      'export async function ship',
      'export class Shipping { constructor(@Inject(REDIS) private redis: Redis, @Inject(ORDERS) private orders: Orders) {}\nasync ship',
    )
    .replace('{  }', '{ await this.redis.eval(UNLOCK, 1, key, token); }')
    .replaceAll('await redis', 'await this.redis')
    .replaceAll('await orders', 'await this.orders');
  const imports = "import type { Redis } from 'ioredis';\ninterface Orders { ship(id: string): Promise<void> }\n";
  const { ids, understood } = await audited(`${imports}${service}}`);
  expect(understood).toContain('../tokens: not there, and so not loaded');
  expect(ids).toEqual([]);
  expect((await audited(`${imports}${service}}`.replace(') return;', ') console.warn(id);'))).ids).toEqual([
    'fails-open',
  ]);
});
