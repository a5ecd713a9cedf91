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
