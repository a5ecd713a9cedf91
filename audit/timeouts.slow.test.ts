import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

const UNLOCK = `"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"`;

/** Imports pages of a server whose client has a time limit, under a lock with this TTL. */
const importing = (limit: string, ttlMs: number): string => `import { randomUUID } from 'node:crypto';
import axios from 'axios';
import { Redis } from 'ioredis';
import pg from 'pg';
const redis = new Redis(process.env.REDIS_URL!);
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const api = axios.create({ baseURL: process.env.SUPPLIER_API${limit} });
async function run(supplier: string): Promise<void> {
  const key = 'import:' + supplier, token = randomUUID();
  if ((await redis.set(key, token, 'PX', ${ttlMs}, 'NX')) !== 'OK') return;
  try {
    const { data } = await api.get('/movements/' + supplier);
    await pool.query('UPDATE stock SET cursor = $2 WHERE supplier = $1', [supplier, data.next]);
  } finally { await redis.eval(${UNLOCK}, 1, key, token); }
}
`;
const SCRIPT = "run(process.argv[2] ?? 'all').then(() => process.exit(0));";
const FUNCTION = 'export { run };';

it.each([
  ['a function', FUNCTION],
  ['a script', SCRIPT],
])('finds a client whose time limit is longer than the TTL, in %s', async (_, use) => {
  expect(await idsOf(importing(', timeout: 30_000', 8_000) + use)).toEqual(['work-outlasts-ttl']);
  expect(await idsOf(importing(', timeout: 5_000', 8_000) + use)).toEqual([]);
  expect(await idsOf(importing('', 8_000) + use)).toEqual([]);
});

/** A service whose method has a lock, by a decorator that does not wait for it, or does. */
const service = (wait: string): string => `import { HttpService } from '@nestjs/axios';
import { Injectable } from '@nestjs/common';
import { firstValueFrom } from 'rxjs';
import { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
const redis = new Redis(process.env.REDIS_URL!);
export function Exclusive(ttlMs: number): MethodDecorator {
  return (_target, _name, descriptor: PropertyDescriptor) => {
    const original = descriptor.value;
    descriptor.value = async function (this: unknown, id: string, ...rest: unknown[]) {
      const key = 'mount:' + id, token = randomUUID();
      if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') throw new Error('busy');
      try { return ${wait} original.apply(this, [id, ...rest]); } finally { await redis.eval(${UNLOCK}, 1, key, token); }
    };
    return descriptor;
  };
}
@Injectable()
export class Mounts {
  constructor(private readonly http: HttpService) {}
  @Exclusive(60_000)
  async slew(id: string): Promise<void> { await firstValueFrom(this.http.post('/mounts/' + id, {})); }
}`;

it('stands for RxJS where a file only waits for values, and says of what is released early no more than that', async () => {
  const { ids, understood } = await audited(service(''));
  expect(ids).toEqual(['releases-early']);
  expect(understood).toContain('rxjs: not installed (npm install rxjs), and so not loaded');
  expect(await idsOf(service('await'))).toEqual([]);
  await expect(audited(service('await').replace('{ firstValueFrom }', '{ firstValueFrom, interval }'))).rejects.toThrow(
    'rxjs',
  );
});
