import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

/** Exports rows under a lock that is extended meanwhile; `empty` is where there are none, `begin` where its try block begins. */
const exporting = (empty: string, begin: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { sheet } from './sheet';
const SAME = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end ";
export async function exportRows(redis: Redis, pool: Pool, tenant: string): Promise<number> {
  const [key, token, lost] = ['export:' + tenant, randomUUID(), new AbortController()];
  if ((await redis.set(key, token, 'PX', 20_000, 'NX')) !== 'OK') return 0;
  const timer = setInterval(async () => {
    const kept = await redis.eval(SAME + "return redis.call('PEXPIRE', KEYS[1], 20000)", 1, key, token).catch(() => 0);
    if (kept === 0) lost.abort(new Error('lost'));
  }, 4_000);
  ${begin}
  const { rows } = await pool.query('SELECT * FROM rows WHERE tenant = $1', [tenant]);
  ${empty}
  try {
    for (const row of rows) { lost.signal.throwIfAborted(); await sheet.write(row); }
    return rows.length;
  } finally {
    clearInterval(timer);
    await redis.eval(SAME + "return redis.call('DEL', KEYS[1])", 1, key, token).catch(() => 0);
  }${begin === '' ? '' : '\n  } finally { clearInterval(timer); await redis.eval(SAME + "return redis.call(\'DEL\', KEYS[1])", 1, key, token).catch(() => 0); }'}
}`;

it('finds a lock that is kept where there is nothing to do', async () => {
  const { ids, findings } = await audited(exporting('if (rows.length === 0) return 0;', ''));
  expect(ids).toContain('kept-on-return');
  expect(findings.join()).toContain('and its heartbeat goes on extending it');
});

it('lets pass one that is released there, too', async () => {
  expect(await idsOf(exporting('if (rows.length === 0) return 0;', 'try {'))).not.toContain('kept-on-return');
  expect(await idsOf(exporting('', ''))).not.toContain('kept-on-return');
});
