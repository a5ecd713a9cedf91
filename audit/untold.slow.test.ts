import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

/** Extends its lock while it encodes: `lost` is done where that has failed, `before` before each step, `given` goes to each. */
const encoding = (lost: string, before: string, given = ''): string => `import { Redis } from 'ioredis';
interface Job { id: string; data: { asset: string; profiles: string[] } }
const SAME = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end ";
export class Encoder {
  private readonly redis: Redis;
  private readonly encode: (asset: string, profile: string, given?: object) => Promise<string>;
  constructor(deps: { redis?: Redis; encode: (asset: string, profile: string, given?: object) => Promise<string> }) {
    this.redis = deps.redis ?? new Redis();
    this.encode = deps.encode;
  }
  async process(job: Job): Promise<string[]> {
    const [key, token, ended] = ['encode:' + job.data.asset, String(Math.random()), new AbortController()];
    if ((await this.redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') return [];
    const timer = setInterval(async () => {
      const is = await this.redis.eval(SAME + "return redis.call('pexpire', KEYS[1], 9000)", 1, key, token).catch(() => 0);
      if (is === 0) { clearInterval(timer); ${lost} }
    }, 3000);
    const files: string[] = [];
    try {
      for (const profile of job.data.profiles) {
        ${before}
        files.push(await this.encode(job.data.asset, profile${given}));
      }
      return files;
    } finally {
      clearInterval(timer);
      await this.redis.eval(SAME + "return redis.call('del', KEYS[1])", 1, key, token);
    }
  }
}`;

it('finds work that goes on with its next step where the lock is lost', async () => {
  await expect(idsOf(encoding("console.warn('lost')", ''))).resolves.toEqual(['silent-loss']);
});

it.each([
  ['looks before each step', encoding('ended.abort()', 'ended.signal.throwIfAborted();')],
  ['stops before the next step', encoding('ended.abort()', 'if (ended.signal.aborted) break;')],
  ['hands its steps a signal', encoding('ended.abort()', '', ', { signal: ended.signal }')],
])('lets work pass that %s', async (_, text) => {
  await expect(idsOf(text)).resolves.toEqual([]);
});

it('finds work under a lock of redlock that does not look at its signal', async () => {
  const paying = (given: string, before: string, first = '', after = ''): string => `import { Redis } from 'ioredis';
import Redlock from 'redlock5';
const redlock = new Redlock([new Redis({ maxRetriesPerRequest: 1 })], { retryCount: 3, retryDelay: 400 });
redlock.on('error', () => {});
interface Bank { version(): Promise<string>; open(month: string): Promise<string[]>; transfer(id: string): Promise<void>; close(month: string): Promise<void> }
export async function payAll(month: string, bank: Bank): Promise<void> {
  await redlock.using(['payouts:' + month], 20_000, { automaticExtensionThreshold: 8_000 }, async (${given}) => {
    await bank.version();
    ${first}
    for (const id of await bank.open(month)) { ${before} await bank.transfer(id); }
    ${after}
  });
}`;
  await expect(idsOf(paying('', ''))).resolves.toEqual(['silent-loss']);
  await expect(idsOf(paying('signal', '', 'signal.throwIfAborted();'))).resolves.toEqual(['silent-loss']);
  await expect(idsOf(paying('signal', 'signal.throwIfAborted();'))).resolves.toEqual([]);
  const after = 'signal.throwIfAborted(); await bank.close(month);';
  await expect(idsOf(paying('signal', '', '', after))).resolves.toEqual(['silent-loss']);
  await expect(idsOf(paying('signal', 'signal.throwIfAborted();', '', after))).resolves.toEqual([]);
});

it('asks nothing of work that has one step', async () => {
  const text = encoding('', '').replace('of job.data.profiles', "of ['480p']");
  await expect(idsOf(text)).resolves.toEqual([]);
});

it('reads batch by batch until one is empty', async () => {
  const inBatches = (lost: string, before: string): string =>
    encoding(lost, before)
      .replace(
        'for (const profile of job.data.profiles) {',
        `for (;;) {
        const [profile] = await this.next(job.id);
        if (profile === undefined) break;`,
      )
      .replace(
        'constructor(deps: {',
        'private readonly next: (id: string) => Promise<string[]>;\n  constructor(deps: { next: (id: string) => Promise<string[]>;',
      )
      .replace('this.encode = ', 'this.next = deps.next;\n    this.encode = ');
  await expect(idsOf(inBatches("console.warn('lost')", ''))).resolves.toEqual(['silent-loss']);
  await expect(idsOf(inBatches('ended.abort()', 'ended.signal.throwIfAborted();'))).resolves.toEqual([]);
});

/** Points a dish at targets. It extends its key every five seconds by `extend`, and is told where no answer comes in time. */
const pointing = (extend: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 15000) end return 0";
interface Target { ra: number; dec: number }
export async function observe(dish: string, targets: Target[]): Promise<void> {
  const [key, token, lost] = ['dish:' + dish, randomUUID(), new AbortController()];
  if ((await redis.set(key, token, 'PX', 15_000, 'NX')) !== 'OK') return;
  let timer: NodeJS.Timeout;
  const beat = async (): Promise<void> => {
    const late = setTimeout(() => lost.abort(new Error('no answer')), 6_000);
    try {
      if (!(${extend})) lost.abort(new Error('lost'));
    } catch (error) { lost.abort(error); }
    clearTimeout(late);
    if (!lost.signal.aborted) timer = setTimeout(beat, 5_000);
  };
  timer = setTimeout(beat, 5_000);
  try {
    for (const target of targets) {
      lost.signal.throwIfAborted();
      await fetch('http://' + dish + '/track', { method: 'POST', body: JSON.stringify(target), signal: lost.signal });
    }
  } finally {
    lost.abort(new Error('over'));
    clearTimeout(timer);
    await redis.eval(UNLOCK, 1, key, token);
  }
}`;

it('finds that the key of the next holder is extended after a pause, where missing answers are noticed', async () => {
  expect(await idsOf(pointing("(await redis.set(key, token, 'PX', 15_000, 'XX')) === 'OK'"))).toEqual([
    'blind-extension',
  ]);
  expect(await idsOf(pointing('(await redis.eval(EXTEND, 1, key, token)) === 1'))).toEqual([]);
});

/** A lock that extends itself, and calls `lose` in time where it cannot. */
const extending = (head: string, begin: string, lose: string, gives: string): string => `
import { EventEmitter } from 'node:events';
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const RELEASE = \`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0\`;
const EXTEND = \`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0\`;
class Lease extends EventEmitter { constructor(readonly release: () => Promise<void>) { super(); } }
export async function ${head} {
  const token = randomUUID();
  const askedAt = performance.now();
  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') throw new Error('locked');
  let over = false;
  ${begin}
  const lose = () => {
    if (over) return;
    end();
    ${lose}
  };
  let guard = setTimeout(lose, askedAt + ttlMs * 0.8 - performance.now());
  const timer = setInterval(async () => {
    const sentAt = performance.now();
    const kept = await redis.eval(EXTEND, 1, key, token, ttlMs).catch(() => null);
    if (over || kept === null) return;
    if (kept !== 1) return lose();
    clearTimeout(guard);
    guard = setTimeout(lose, sentAt + ttlMs * 0.8 - performance.now());
  }, ttlMs / 4);
  const end = () => { over = true; clearInterval(timer); clearTimeout(guard); };
  const release = async () => { end(); await redis.eval(RELEASE, 1, key, token); };
  const lease = new Lease(release);
  ${gives}
}`;
const LOCK = 'acquire(redis: Redis, key: string, ttlMs: number)';
const HANDED = 'acquire(redis: Redis, key: string, ttlMs: number, options: { onLost?: (error: Error) => void } = {})';
/** Runs work, which is handed this besides. */
const working = (handed: string): string => `withLock<T>(redis: Redis, key: string, ttlMs: number, ${handed})`;
const WORKS = (handed: string): string => `try { return await work(${handed}); } finally { await release(); }`;
const PROMISE = 'let tell!: (it: Error) => void; const lost = new Promise<Error>((resolve) => { tell = resolve; });';
const TELLS = "tell(new Error('lost'));";

it.each([
  ['a function that it is handed', HANDED, '', "options.onLost?.(new Error('lost'));", 'return lease;'],
  ['an event', LOCK, '', "lease.emit('lost');", 'return lease;'],
  ['a promise', LOCK, PROMISE, TELLS, 'return { release, lost };'],
  [
    'who has asked to hear of it',
    LOCK,
    'const all: (() => void)[] = [];',
    'for (const one of all) one();',
    'return { release, onLost(one: () => void) { all.push(one); } };',
  ],
  [
    'a property that is set to a function',
    LOCK,
    'const lock = { release: async () => {}, onLost: null as null | (() => void) };',
    'lock.onLost?.();',
    'lock.release = release; return lock;',
  ],
  ['a function beside its work', working('work: () => Promise<T>, onLost: () => void'), '', 'onLost();', WORKS('')],
  ['a promise to its work', working('work: (lost: Promise<Error>) => Promise<T>'), PROMISE, TELLS, WORKS('lost')],
  [
    'a flag to its work',
    working('work: (lock: { lost: boolean }) => Promise<T>'),
    'const lock = { lost: false };',
    'lock.lost = true;',
    WORKS('lock'),
  ],
  [
    'what its work asks',
    working('work: (stillHeld: () => boolean) => Promise<T>'),
    'let isLost = false;',
    'isLost = true;',
    WORKS('() => !isLost'),
  ],
  [
    'what throws when its work asks',
    working('work: (check: () => void) => Promise<T>'),
    'let isLost = false;',
    'isLost = true;',
    WORKS("() => { if (isLost) throw new Error('lost'); }"),
  ],
])('takes a lock for held until its end is told by %s', async (_, head, begin, lose, gives) => {
  expect(await idsOf(extending(head, begin, lose, gives), 40)).toEqual([]);
  expect(await idsOf(extending(head, begin, '', gives), 40)).toEqual(['silent-loss']);
});

it.each([
  [
    'a function of what it uses has such a name',
    'withLock<T>(redis: Redis, key: string, ttlMs: number, work: () => Promise<T>, pool: { release(): void }, onLost: () => void)',
    '',
    'pool.release();',
    WORKS(''),
  ],
  [
    'its work is handed a promise that is settled',
    working('work: (ready: Promise<Error>) => Promise<T>'),
    "const ready = Promise.resolve(new Error('none'));",
    '',
    WORKS('ready'),
  ],
])('does not take a lock for over where %s', async (_, head, begin, lose, gives) => {
  expect(await idsOf(extending(head, begin, lose, gives), 40)).toEqual(['silent-loss']);
});

/** Migrates in a transaction for each file under a lock that is extended meanwhile; `first` is done at its beginning, `last` before the commit. */
const migrating = (last: string, first = ''): string => `import { Redis } from 'ioredis';
import Redlock from 'redlock5';
import { Pool } from 'pg';
const redlock = new Redlock([new Redis({ maxRetriesPerRequest: 1 })], { retryCount: 3, retryDelay: 400 });
redlock.on('error', () => {});
const pool = new Pool();
export async function migrate(tenant: string, files: string[]): Promise<void> {
  await redlock.using(['migrate:' + tenant], 20_000, { automaticExtensionThreshold: 8_000 }, async (signal) => {
    for (const file of files) {
      const db = await pool.connect();
      try {
        await db.query('BEGIN');
        ${first}
        await db.query('INSERT INTO migrations (tenant, file) VALUES ($1, $2)', [tenant, file]);
        ${last}
        await db.query('COMMIT');
      } catch (error) {
        await db.query('ROLLBACK');
        throw error;
      } finally {
        db.release();
      }
    }
  });
}`;

it('counts what is done in a transaction where that is committed', async () => {
  await expect(idsOf(migrating(''))).resolves.toEqual(['silent-loss']);
  await expect(idsOf(migrating("if (signal.aborted) throw new Error('lost');"))).resolves.toEqual([]);
});

it('takes what a transaction does for safe where that locks its records in the database', async () => {
  const locks = (how: string): string => `await db.query('SELECT id FROM tenants WHERE id = $1 ${how}', [tenant]);`;
  await expect(idsOf(migrating('', locks('FOR UPDATE')))).resolves.toEqual([]);
  await expect(idsOf(migrating('', locks('')))).resolves.toEqual(['silent-loss']);
});

/** Imports rows under a lock of redlock 4, which releases a lock that it cannot extend. */
const importing = (failed: string, before: string): string => `import { Redis } from 'ioredis';
import Redlock from 'redlock4';
import { rows } from './rows';
const redlock = new Redlock([new Redis({ maxRetriesPerRequest: 1 })], { retryCount: 0 });
redlock.on('clientError', () => {});
export async function importAll(supplier: string): Promise<void> {
  let lock = await redlock.lock('import:' + supplier, 20_000);
  let lost = false;
  const timer = setInterval(async () => {
    try { lock = await lock.extend(20_000); } catch { ${failed} }
  }, 6_000);
  try {
    await rows.replace(supplier);
    ${before}
    await rows.deleteOthers(supplier);
  } finally {
    clearInterval(timer);
    await lock.unlock().catch(() => undefined);
  }
}`;

it('finds work that goes on where its extension has failed, and the library has released its lock for that', async () => {
  await expect(idsOf(importing("console.warn('lost');", ''))).resolves.toEqual(['silent-loss']);
  await expect(idsOf(importing('lost = true;', "if (lost) throw new Error('lost');"))).resolves.toEqual([]);
});

/** Goes through pages, and looks at a signal before each; its key is extended by this. */
const paging = (extends_: string): string => `import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
const SAME = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end ";
export async function syncAll(outer: AbortSignal): Promise<void> {
  const [key, token, lost] = ['sync', String(Math.random()), new AbortController()];
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') return;
  const timer = setInterval(async () => {
    const kept = await ${extends_}.catch(() => 0);
    if (kept !== 1) lost.abort(new Error('lost'));
  }, 10_000);
  try {
    let cursor: string | null = '';
    while (cursor !== null) {
      AbortSignal.any([outer, lost.signal]).throwIfAborted();
      const answer = await fetch('https://crm.example/sync?cursor=' + cursor, { method: 'POST', signal: lost.signal });
      cursor = (await answer.json()).next;
    }
  } finally {
    clearInterval(timer);
    await redis.eval(SAME + "return redis.call('del', KEYS[1])", 1, key, token);
  }
}`;

it('finds a job that extends the key of another process and goes on with its next page', async () => {
  await expect(idsOf(paging('redis.pexpire(key, 30_000)'))).resolves.toEqual(['blind-extension']);
  const compared = `redis.eval(SAME + "return redis.call('pexpire', KEYS[1], 30000)", 1, key, token)`;
  await expect(idsOf(paging(compared))).resolves.toEqual([]);
});

/** Renews its lock by a timer, and ends so. */
const renewed = (end: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 1, commandTimeout: 2_000 });
const SAME = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end ";
export async function withTitle<T>(title: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const [key, token, lost] = ['title:' + title, randomUUID(), new AbortController()];
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('busy');
  let keptMs = performance.now();
  const timer = setInterval(async () => {
    if (performance.now() - keptMs > 24_000) lost.abort(new Error('lost'));
    const askedMs = performance.now();
    const kept = await redis.eval(SAME + "return redis.call('pexpire', KEYS[1], 30000)", 1, key, token).catch(() => -1);
    if (kept === 1) keptMs = askedMs;
    if (kept === 0) { clearInterval(timer); lost.abort(new Error('lost')); }
  }, 3_000);
  const unlock = () => redis.eval(SAME + "return redis.call('del', KEYS[1])", 1, key, token);
  try { return await work(lost.signal); } finally { ${end} }
}`;

it('finds a renewal that goes on where a release has failed for a moment', async () => {
  expect(await idsOf(renewed('await unlock(); clearInterval(timer);'))).toEqual(['extends-after-release']);
  expect(await idsOf(renewed('clearInterval(timer); await unlock();'))).toEqual([]);
});
