import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';

/** A lock whose key has a fencing token as its value, which a script makes of a counter; `end` releases it. */
const writer = (end: string): string => `import { Redis } from 'ioredis';
const BEGIN = \`if redis.call('exists', KEYS[1]) == 1 then return 0 end
local fence = redis.call('incr', KEYS[2])
redis.call('set', KEYS[1], tostring(fence), 'PX', ARGV[1])
return fence\`;
const END = "${end}";
export class Writer {
  private readonly redis = new Redis();
  async update(id: string, change: (fence: number) => Promise<void>): Promise<void> {
    const [lock, fences] = ['{' + id + '}:lock', '{' + id + '}:fence'];
    const fence = Number(await this.redis.eval(BEGIN, 2, lock, fences, 8000));
    if (fence === 0) throw new Error('busy');
    try {
      await change(fence);
    } finally {
      await this.redis.eval(END, 1, lock, String(fence));
    }
  }
}`;

const DELETES_OWN = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const DELETES_ANY = "if redis.call('get', KEYS[1]) then return redis.call('del', KEYS[1]) end return 0";

it.each([
  ['compares it on release', DELETES_OWN, []],
  ['deletes any', DELETES_ANY, ['deletes-others']],
])('audits a lock whose value is made by a script, and which %s', async (_, end, ids) => {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(path, writer(end));
  const { findings } = await auditFile({ path, runs: 60, seed: 's', budgetMs: 60_000 }, () => {});
  expect(findings.map(({ id }) => id)).toEqual(ids);
});

it('audits a lock in a hash, which is over at the time in it', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(
    path,
    `import type { Redis } from 'ioredis';
const TAKE = \`local held = redis.call('HMGET', KEYS[1], 'token', 'until')
if held[1] and tonumber(held[2]) > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'until', ARGV[3])
redis.call('PEXPIRE', KEYS[1], 3600000)
return 1\`;
const FREE = "if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then redis.call('HDEL', KEYS[1], 'token', 'until') end";
export async function withSlot(redis: Redis, slot: string, book: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const [key, token, now] = ['slot:' + slot, String(Math.random()), Date.now()];
  if ((await redis.eval(TAKE, 1, key, token, now, now + 10_000)) !== 1) throw new Error('busy');
  try { await book(AbortSignal.timeout(9_000)); } finally { await redis.eval(FREE, 1, key, token); }
}`,
  );
  const { findings, understood } = await auditFile({ path, runs: 60, seed: 's', budgetMs: 60_000 }, () => {});
  expect(understood[1]).toMatch(/its TTL is (?:10 s|99\d\d ms)/);
  expect(findings.map(({ id }) => id)).toEqual(['taken-by-clock']);
});
