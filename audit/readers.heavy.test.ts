import { expect, it } from 'vitest';
import { audited } from './testing/audited.js';

/** Whether anybody reads, as a script asks. */
const THERE = "redis.call('exists', KEYS[1]) == 1";

/** A lock for readers and writers that is told by a parameter which of them asks; `leave` is what a reader leaves by. */
const lock = (
  [told, isReader]: readonly [string, string],
  enter: string,
  leave: string,
  there = THERE,
): string => `import type { Redis } from 'ioredis';
const READ = \`if redis.call('exists', KEYS[2]) == 1 then return 0 end
${enter}
redis.call('pexpire', KEYS[1], ARGV[2])
return 1\`;
const WRITE = \`if ${there} or redis.call('exists', KEYS[2]) == 1 then return 0 end
redis.call('set', KEYS[2], ARGV[1], 'PX', ARGV[2])
return 1\`;
const DONE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class Pages {
  constructor(private redis: Redis) {}
  async acquire(page: string, ${told}): Promise<string | null> {
    const token = String(Math.random());
    const script = ${isReader} ? READ : WRITE;
    return (await this.redis.eval(script, 2, page + ':r', page + ':w', token, 9000)) === 1 ? token : null;
  }
  async release(page: string, ${told}, token: string) {
    if (${isReader}) await this.redis.${leave};
    else await this.redis.eval(DONE, 1, page + ':w', token);
  }
}`;

const MODE = ["mode: 'read' | 'write'", "mode === 'read'"] as const;
const FLAG = ['shared: boolean', 'shared'] as const;
const ENTRY = "redis.call('hset', KEYS[1], ARGV[1], 1)";
const COUNTED = "tonumber(redis.call('get', KEYS[1]) or '0') > 0";

it.each([
  ['takes its own entry out as it leaves', lock(MODE, ENTRY, "hdel(page + ':r', token)"), []],
  ['takes all out', lock(MODE, ENTRY, "del(page + ':r')"), ['reader-leaves-for-all']],
  ['is not looked for', lock(MODE, ENTRY, "hdel(page + ':r', token)", 'false'), ['writer-ignores-readers']],
  [
    'counts itself off',
    lock(FLAG, "redis.call('incr', KEYS[1])", "decr(page + ':r')", COUNTED),
    ['readers-share-counter'],
  ],
  [
    'has an entry without an end',
    lock(MODE, ENTRY, "hdel(page + ':r', token)").replace("redis.call('pexpire', KEYS[1], ARGV[2])", ''),
    ['reader-kept'],
  ],
  [
    'sets the TTL of all when it comes first',
    lock(MODE, ENTRY, "hdel(page + ':r', token)").replace(
      "redis.call('pexpire', KEYS[1], ARGV[2])",
      "if redis.call('hlen', KEYS[1]) == 1 then redis.call('pexpire', KEYS[1], ARGV[2]) end",
    ),
    ['readers-share-ttl'],
  ],
  [
    'sets the TTL of all to its own',
    lock(["mode: 'read' | 'write', ttlMs: number", "mode === 'read'"], ENTRY, "hdel(page + ':r', token)")
      .replace('token, 9000)', 'token, ttlMs)')
      .replace(", mode: 'read' | 'write', ttlMs: number, token", ", mode: 'read' | 'write', token"),
    ['readers-share-ttl'],
  ],
])('knows by two readers one that %s', async (_, text, ids) => {
  const found = await audited(text);
  expect(found.understood).toContain('is for those who only read');
  expect(found.ids).toEqual(ids);
});

/** A reader that looks for a writer and adds itself for `leaseMs`, in so many steps. */
const entering = (enter: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const CHECKED = "if redis.call('exists', KEYS[2]) == 1 then return 0 end redis.call('hset', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], 3000) return 1";
const ADDED = "redis.call('hset', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], 3000) return 1";
const WRITE = "if redis.call('exists', KEYS[1]) == 1 then return 0 end if redis.call('set', KEYS[2], ARGV[1], 'NX', 'PX', 9000) then return 1 end return 0";
const DONE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const pause = () => new Promise<void>((done) => setTimeout(done, 25));
export class Book {
  constructor(private redis: Redis, private name: string) {}
  async read<T>(work: () => Promise<T>): Promise<T> {
    const [token, r, w] = [randomUUID(), this.name + ':r', this.name + ':w'];
    ${enter}
    try { return await work(); } finally { await this.redis.hdel(r, token); }
  }
  async write<T>(work: () => Promise<T>): Promise<T> {
    const [token, r, w] = [randomUUID(), this.name + ':r', this.name + ':w'];
    while ((await this.redis.eval(WRITE, 2, r, w, token)) !== 1) await pause();
    try { return await work(); } finally { await this.redis.eval(DONE, 1, w, token); }
  }
}`;

it.each([
  [
    'two commands',
    'while ((await this.redis.exists(w)) === 1) await pause(); await this.redis.eval(ADDED, 1, r, token);',
    ['reader-adds-late'],
  ],
  [
    'one script, for less time than a writer has',
    'while ((await this.redis.eval(CHECKED, 2, r, w, token)) !== 1) await pause();',
    [],
  ],
])('judges a reader that enters by %s', async (_, enter, ids) => {
  const found = await audited(entering(enter));
  expect(found.understood).toContain('is for those who only read');
  expect(found.ids).toEqual(ids);
});

/** A reader adds itself to a set of which the writer counts those who are not over, and may look for the writer again. */
const leased = (again: string): string => `import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
const DROP = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export async function connect(url = process.env.REDIS_URL) {
  const client = createClient({ url });
  await client.connect();
  return new RwLock(client);
}
export class RwLock {
  constructor(client) { this.client = client; }
  async read(name, fn) {
    const token = randomUUID();
    for (;;) {
      while (await this.client.exists(name + ':w')) await sleep(30);
      await this.client.zAdd(name + ':r', { score: Date.now() + 15_000, value: token });
      ${again}
    }
    try { return await fn(AbortSignal.timeout(12_000)); } finally { await this.client.zRem(name + ':r', token); }
  }
  async write(name, fn) {
    const token = randomUUID();
    while ((await this.client.set(name + ':w', token, { NX: true, PX: 15_000 })) !== 'OK') await sleep(30);
    try {
      const until = Date.now() + 7_000;
      while ((await this.client.zCount(name + ':r', Date.now(), '+inf')) > 0) {
        if (Date.now() > until) throw new Error('readers do not leave');
        await sleep(20);
      }
      return await fn(AbortSignal.timeout(5_000));
    } finally { await this.client.eval(DROP, { keys: [name + ':w'], arguments: [token] }); }
  }
}`;

it('finds a reader that adds itself to others after it has looked for a writer', async () => {
  const once = await audited(leased('break;'), 0, 'lock.mjs');
  expect(once.ids).toEqual(['reader-adds-late']);
  expect(once.findings).toEqual([expect.stringContaining('(EXISTS, then ZADD)')]);
  const again = "if (!(await this.client.exists(name + ':w'))) break; await this.client.zRem(name + ':r', token);";
  expect((await audited(leased(again), 0, 'lock.mjs')).ids).toEqual([]);
});
