import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { auditFile } from './audit.js';
import { limitsIn } from './capacity.js';
import type { AuditResult } from './result.js';

async function audited(text: string, runs: number): Promise<AuditResult> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.mjs');
  writeFileSync(path, text);
  return auditFile({ path, runs, seed: 'lockstep', budgetMs: 20_000 }, () => {});
}

/** Three at once, each with a score; `score` is what its place is kept under, `swept` what is over. */
const slots = (
  score: string,
  swept: string,
  compares = '<',
  expires = "redis.call('PEXPIRE', KEYS[1], 2 * ARGV[2])",
): string => `
const MOST = 3;
const ENTER = \`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ${swept})
if redis.call('ZCARD', KEYS[1]) ${compares} tonumber(ARGV[3]) then
  redis.call('ZADD', KEYS[1], ${score}, ARGV[1])
  ${expires}
  return 1
end
return 0\`;
const limit = MOST;
export class Slots {
  constructor(redis) { this.redis = redis; }
  async acquire(pool) {
    const id = crypto.randomUUID();
    return (await this.redis.eval(ENTER, 1, pool, id, 9000, limit)) === 1 ? id : null;
  }
  async release(pool, id) { await this.redis.zrem(pool, id); }
}`;

const gates = (enter: string, release: string): string => `
const MAX_OPEN = 2;
export class Gates {
  constructor(redis) { this.redis = redis; }
  async acquire(gate) {
    ${enter}
  }
  ${release}
}`;

describe('a lock that several may hold', () => {
  it.each([
    ['when its place ends', slots('now + ARGV[2]', 'now')],
    ['when it was taken', slots('now', 'now - ARGV[2]')],
  ])('is no mutex that fails, whether its score says %s', async (_, text) => {
    const { findings, verdict, admits } = await audited(text, 12);
    expect({ findings: findings.map(({ id }) => id), verdict, admits }).toEqual({
      findings: [],
      verdict: 'passed',
      admits: 3,
    });
  });

  it('need no TTL where its places end by their scores', async () => {
    const one = slots('now + ARGV[2]', 'now', '<', '').replace('MOST = 3', 'MOST = 1');
    const { findings, admits } = await audited(one, 12);
    expect([admits, findings.map(({ id }) => id)]).toEqual([1, []]);
  });

  it('is held to the limit that it is given', async () => {
    const given = (compares: string): string =>
      slots('now + ARGV[2]', 'now', compares)
        .replace('constructor(redis) {', 'constructor(redis, maxHolders) { this.limit = maxHolders;')
        .replace('9000, limit)', '9000, this.limit)')
        .replace('const MOST = 3;', '')
        .replace('const limit = MOST;', '');
    expect((await audited(given('<='), 0)).findings.map(({ id }) => id)).toEqual(['lets-in-more']);
    expect((await audited(given('<'), 12)).findings).toEqual([]);
  });

  it('is held to the one limit that its file names', async () => {
    const { findings } = await audited(slots('now + ARGV[2]', 'now', '<='), 0);
    expect(findings.map(({ id, sentence }) => `${id}: ${sentence}`).join()).toMatch(/lets-in-more: .*more than 3 hold/);
  });

  it('may count its holders by plain commands', async () => {
    const { findings, admits } = await audited(
      gates(
        `if ((await this.redis.zcard(gate)) >= MAX_OPEN) return null;
    const id = crypto.randomUUID();
    await this.redis.multi().zadd(gate, Date.now() + 9000, id).pexpire(gate, 9000).exec();
    return id;`,
        'async release(gate, id) { await this.redis.zrem(gate, id); }',
      ),
      24,
    );
    expect([admits, findings[0]?.id, findings[0]?.kind]).toEqual([2, 'check-then-add', 'belief']);
  });

  it.each([
    ['counts those whom it refuses', '', ['counts-refused']],
    ['takes them off again', 'await this.redis.decr(gate);', []],
    ['counts without an end', 'await this.redis.decr(gate);', ['no-ttl'], ''],
  ])('%s', async (_, otherwise, ids, ends = 'await this.redis.pexpire(gate, 30000);') => {
    const enter = `const open = await this.redis.incr(gate);
    ${ends}
    if (open <= MAX_OPEN) return true;
    ${otherwise}
    return false;`;
    const release = 'async release(gate) { await this.redis.decr(gate); }';
    expect((await audited(gates(enter, release), 0)).findings.map(({ id }) => id)).toEqual(ids);
  });
});

it('knows a limit of holders from other numbers', () => {
  const text = `const MAX_PARALLEL = 4, MAX_RETRIES = 9; class A { limit = 7; #slots = 12; maxWaitMs = 300 }
    const o = { max: Number(process.env.X_MAX ?? 10) };`;
  expect(limitsIn([{ text }])).toEqual([4, 7, 12, 10]);
});

it('takes what is added in a transaction for asked, though nothing was there to remove before that', async () => {
  const text = `
export class Permits {
  constructor(redis, options) { this.redis = redis; this.options = options; }
  async acquire(site) {
    const id = crypto.randomUUID();
    const replies = await this.redis.multi()
      .zremrangebyscore(site, '-inf', Date.now() - 9000).zadd(site, Date.now(), id).zrank(site, id).exec();
    if (replies[2][1] < this.options.limit) return id;
    await this.redis.zrem(site, id);
    return null;
  }
  async release(site, id) { await this.redis.zrem(site, id); }
}`;
  const { findings, understood } = await audited(text, 24);
  expect(understood[0]).toBe('Permits.acquire (lock.mjs:4) acquires, and release releases');
  expect(findings.map(({ id }) => id)).toContain('ranked-by-clock');
});

it('counts those whom a function lets in that hands a limit of its own to one that is told it', async () => {
  const told = `${slots('now + ARGV[2]', 'now').replace('const MOST = 3;', '').split('const limit')[0]}
export function semaphore(client, { name, limit }) {
  return {
    async run(work) {
      const id = crypto.randomUUID();
      const got = await client.eval(ENTER, { keys: ['sem:' + name], arguments: [id, '30000', String(limit)] });
      if (got !== 1) return false;
      try { await work(); return true; } finally { await client.zRem('sem:' + name, id); }
    },
  };
}
export async function rollOut(client, gateway) {
  const sem = semaphore(client, { name: 'roll-out', limit: 12 });
  return sem.run(async () => { await gateway.push(); });
}`;
  const { findings } = await audited(told, 10);
  expect(findings.map(({ id }) => id)).toEqual([]);
});

it('finds that those who wait are counted, where each adds its entry before the count', async () => {
  const waiting = (enter: string): string => `
const ENTER = \`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
${enter}
return 1\`;
export async function withDish(redis, station, work, { limit = 3 } = {}) {
  const id = crypto.randomUUID();
  const untilMs = performance.now() + 60_000;
  try {
    while ((await redis.eval(ENTER, 1, station, id, 90_000, limit)) !== 1) {
      if (performance.now() > untilMs) throw new Error('busy');
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
    return await work();
  } finally {
    await redis.zrem(station, id);
  }
}`;
  const [add, count] = [
    "redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1]) redis.call('PEXPIRE', KEYS[1], ARGV[2])",
    (compares: string) => `if redis.call('ZCARD', KEYS[1]) ${compares} tonumber(ARGV[3]) then return 0 end`,
  ];
  const idsOf = async (text: string): Promise<string[]> => (await audited(text, 0)).findings.map(({ id }) => id);
  expect(await idsOf(waiting(`${add} ${count('>')}`))).toEqual(['counts-refused']);
  expect(await idsOf(waiting(`${count('>=')} ${add}`))).toEqual([]);
});
