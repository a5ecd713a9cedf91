import { describe, expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

const HEAD = `import { randomBytes, randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
`;

/** Draws a number with its lock by a script, and hands it to what it works on. */
const drawing = (script: string, fence = 'drawn'): string => `${HEAD}
const TAKE = \`${script}\`;
interface Zones { read(zone: string, epoch: number): Promise<string[]>; write(zone: string, epoch: number): Promise<void> }
export class Editor {
  constructor(private redis: Redis, private store: Zones) {}
  async edit(zone: string, fn: (records: string[]) => Promise<string[]>) {
    const [lock, counter, token] = [zone, zone + ':epoch', randomUUID()];
    const drawn = Number(await this.redis.eval(TAKE, 2, lock, counter, token, 9000));
    if (drawn === 0) throw new Error('locked');
    try {
      const epoch = ${fence};
      await fn(await this.store.read(zone, epoch));
      await this.store.write(zone, epoch);
    } finally { await this.redis.eval(UNLOCK, 1, lock, token); }
  }
}`;
const SETS = "if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end";

/** Keeps a lock for a burst of calls. */
const remembering = (looks: string): string => `${HEAD}
export class Publisher {
  private held = new Map<string, { token: string; until: number }>();
  constructor(private redis: Redis) {}
  async acquire(tenant: string): Promise<string | null> {
    const own = this.held.get(tenant);
    ${looks}
    const [token, from] = [randomUUID(), performance.now()];
    if ((await this.redis.set(tenant, token, 'PX', 9000, 'NX')) !== 'OK') return null;
    this.held.set(tenant, { token, until: from + 9000 });
    return token;
  }
  async release(tenant: string) {
    const own = this.held.get(tenant);
    this.held.delete(tenant);
    if (own) await this.redis.eval(UNLOCK, 1, tenant, own.token);
  }
}`;

const ofBytes = (compared: string): string => `${HEAD}
export class Seal {
  constructor(private redis: Redis) {}
  async acquire(shelf: string) {
    const [key, seal] = ['seal:' + shelf, randomBytes(16)];
    const stored = seal.toString('hex');
    return (await this.redis.set(key, ${compared === 'bytes' ? 'seal' : 'stored'}, 'PX', 9000, 'NX')) === 'OK' ? { key, seal } : null;
  }
  async release(hold: { key: string; seal: Buffer }) { await this.redis.eval(UNLOCK, 1, hold.key, hold.seal.toString('hex')); }
}`;

/** Assigns vouchers under a lock that is one of two commands of a MULTI. */
const vouchers = (refuses: string, refused = "throw new Error('busy');"): string => `${HEAD}
interface Stock { firstUnused(sku: string): Promise<string>; assign(code: string): Promise<void>; emit(what: string): Promise<void> }
export const make = (redis: Redis, store: Stock) => ({
  async draw(sku: string): Promise<string | null> {
    const token = randomUUID();
    const replies = await redis.multi().set(sku, token, 'PX', 9000, 'NX').hincrby('tries', sku, 1).exec();
    if (${refuses}) { ${refused} }
    try {
      const code = await store.firstUnused(sku);
      await store.assign(code);
      return code;
    } finally { await redis.eval(UNLOCK, 1, sku, token); }
  },
});`;

/** Says now and then how far it has come, in the value of its key. */
const importing = (stores: string): string => `${HEAD}
const REPORT = \`local v = redis.call('get', KEYS[1])
if not v or cjson.decode(v).token ~= ARGV[1] then return 0 end
${stores}
return 1\`;
const FINISH = "local v = redis.call('get', KEYS[1]) if not v or cjson.decode(v).token ~= ARGV[1] then return 0 end return redis.call('del', KEYS[1])";
export async function importAll(redis: Redis, rows: AsyncIterable<string>, upsert: (row: string) => Promise<void>) {
  const state = { token: randomUUID(), done: 0 };
  if ((await redis.set('import', JSON.stringify(state), 'PX', 9000, 'NX')) !== 'OK') return 0;
  try {
    for await (const row of rows) {
      await upsert(row);
      if (++state.done % 500 !== 0) continue;
      if ((await redis.eval(REPORT, 1, 'import', state.token, JSON.stringify(state))) !== 1) throw new Error('lost');
    }
    return state.done;
  } finally { await redis.eval(FINISH, 1, 'import', state.token); }
}`;

const handler = (body: string, more = ''): string => `${HEAD}
interface Mails { send(id: string): Promise<{ id: string }>; find(id: string): Promise<string | null> }
interface Res { json(body: unknown): void }
${more}
export const handler = (redis: Redis, mails: Mails) =>
  async (req: { body: { id: string } }, res: Res) => {
    const key = 'mail:' + req.body.id;
    ${body}
  };`;

const session = (script: string): string => `${HEAD}
const TAKE = \`${script}\`;
export class Pump {
  private session: string | null = null;
  constructor(private redis: Redis) {}
  async setSpeed(pump: string, plan: () => Promise<void>) {
    if (!this.session) {
      const id = randomUUID();
      await this.redis.set('session:' + id, '1', 'PX', 9000);
      this.session = id;
    }
    const own = this.session + '|' + randomUUID();
    if ((await this.redis.eval(TAKE, 2, 'pump:' + pump, 'session:' + this.session, own)) !== 1) return false;
    try { await plan(); } finally { await this.redis.eval(UNLOCK, 1, 'pump:' + pump, own); }
  }
}`;

const lease = (extend: string, script = ''): string => `${HEAD}
const AGAIN = \`${script}\`;
export class Frame {
  constructor(private redis: Redis) {}
  async acquire(key: string, ttlMs: number) {
    const [token, redis] = [randomUUID(), this.redis];
    let until = Date.now() + ttlMs - 500;
    if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;
    return {
      isHeld: () => Date.now() < until,
      release: () => { until = 0; return redis.eval(UNLOCK, 1, key, token); },
      extend: async (ms: number) => {
        const from = Date.now();
        ${extend}
        until = done ? from + ms - 500 : 0;
        return done;
      },
    };
  }
}`;

const slots = (limit: string, script: string): string => `${HEAD}
${limit}
const ENTER = \`local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
${script}\`;
export class Slots {
  constructor(private redis: Redis) {}
  async acquire(ttlMs: number): Promise<string | null> {
    const id = randomUUID();
    return (await this.redis.eval(ENTER, 1, 'slots', id, ttlMs, MOST)) === 1 ? id : null;
  }
  async release(id: string) { await this.redis.zrem('slots', id); }
}`;
const ADDS = "redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])";

/** By what is found, or might be: wrong ones, and right ones that come close. */
const LOCKS: Readonly<Record<string, { readonly wrong: readonly string[]; readonly right: readonly string[] }>> = {
  'fencing-token': {
    wrong: [
      drawing(`${SETS} local epoch = redis.call('incr', KEYS[2]) redis.call('expire', KEYS[2], 600)\nreturn epoch`),
      drawing(`${SETS} redis.call('incr', KEYS[2]) return 1`, 'Number(await this.redis.get(counter))'),
    ],
    right: [
      drawing(`${SETS} return redis.call('incr', KEYS[2])`),
      // What it counts is no token.
      drawing(`${SETS} redis.call('incr', KEYS[2]) redis.call('expire', KEYS[2], 600) return 1`),
      // It looks whether somebody has come after it.
      drawing(`${SETS} return redis.call('incr', KEYS[2])`, 'Number(await this.redis.get(counter)) - drawn'),
    ],
  },
  'remembers-lock': {
    wrong: [remembering('if (own) return own.token;')],
    right: [remembering(''), remembering('if (own && performance.now() < own.until - 500) return own.token;')],
  },
  'never-frees': { wrong: [ofBytes('bytes')], right: [ofBytes('hex')] },
  'fails-open': {
    wrong: [vouchers('!(replies ?? [])[0]'), vouchers('replies === null')],
    right: [
      vouchers("replies?.[0]?.[1] !== 'OK'"),
      // What is told that it was refused is told something else, or only looks.
      vouchers("replies?.[0]?.[1] !== 'OK'", "await store.emit('busy'); return null;"),
      vouchers("replies?.[0]?.[1] !== 'OK'", 'return store.firstUnused(sku);'),
    ],
  },
  'drops-ttl': {
    wrong: [importing("redis.call('set', KEYS[1], ARGV[2])")],
    right: [
      importing("redis.call('set', KEYS[1], ARGV[2], 'KEEPTTL')"),
      importing("redis.call('set', KEYS[1], ARGV[2]) redis.call('pexpire', KEYS[1], 9000)"),
      // What it stores is under another key.
      importing("redis.call('set', KEYS[1] .. ':progress', ARGV[2])"),
    ],
  },
  'two-step-release': {
    wrong: [
      `${HEAD}
export async function withLock(redis: Redis, key: string, fn: () => Promise<void>) {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') throw new Error('locked');
  try { await fn(); } finally {
    if ((await redis.get(key)) === token) { await redis.watch(key); await redis.multi().del(key).exec(); }
  }
}`,
    ],
    right: [
      `${HEAD}
export async function withLock(redis: Redis, key: string, fn: () => Promise<void>) {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') throw new Error('locked');
  try { await fn(); } finally {
    await redis.watch(key);
    if ((await redis.get(key)) === token) await redis.multi().del(key).exec(); else await redis.unwatch();
  }
}`,
    ],
  },
  'revives-lock': {
    wrong: [
      lease(
        'const done = (await redis.eval(AGAIN, 1, key, token, ms)) === 1;',
        "local o = redis.call('get', KEYS[1]) if o == false or o == ARGV[1] then redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end return 0",
      ),
    ],
    right: [
      // It sets the key, where that is its own.
      lease(
        'const done = (await redis.eval(AGAIN, 1, key, token, ms)) === 1;',
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'XX') return 1 end return 0",
      ),
      // It looks at the time before it asks, and SET … XX answers null where the key has gone.
      lease(
        'const own = Date.now() < until && (await redis.get(key)) === token; const done = own && (await redis.eval(EXTEND, 1, key, token, ms)) === 1;',
      ),
      // What a script sets after the work is another key.
      `${HEAD}
export async function reportOnce(redis: Redis, day: string, fn: () => Promise<string>) {
  const [key, token] = ['report:' + day + ':lock', randomUUID()];
  if ((await redis.set(key, token, 'PX', 9000, 'NX')) !== 'OK') throw new Error('locked');
  try {
    const text = await fn();
    await redis.eval("redis.call('set', KEYS[1], ARGV[1], 'EX', 86400) return 1", 1, 'report:' + day, text);
  } finally { await redis.eval(UNLOCK, 1, key, token); }
}`,
      // It has lost the lock, and says so, though it asks for the key for its next try.
      lease('const done = (await redis.eval(EXTEND, 1, key, token, ms)) === 1; if (!done) until = 0;'),
    ],
  },
  'lets-in-more': {
    wrong: [
      slots(
        'const MOST = 3;',
        `if redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[3]) then return 0 end ${ADDS} return 1`,
      ),
    ],
    right: [
      slots(
        'const MOST = 3;',
        `if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end ${ADDS} return 1`,
      ),
      // It adds itself first, and takes itself out again.
      slots(
        'const MOST = 3;',
        `${ADDS} if redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[3]) then redis.call('ZREM', KEYS[1], ARGV[1]) return 0 end return 1`,
      ),
      // Two numbers are named, and the limit is their product.
      slots(
        'const MOST_WORKERS = 2; const PER_WORKER = 3; const MOST = MOST_WORKERS * PER_WORKER;',
        `if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end ${ADDS} return 1`,
      ),
      // The number is of something else.
      slots(
        'const MOST = 2 + 2; const LIMIT_RETRIES = 2;',
        `if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end ${ADDS} return 1`,
      ),
    ],
  },
  'done-before-guard': {
    wrong: [
      handler(`if ((await redis.get(key)) !== null) return res.json({});
    const mail = await mails.send(req.body.id); await redis.set(key, 'sent', 'EX', 3600, 'NX'); return res.json(mail);`),
    ],
    right: [
      // It looks, sets, and only then works.
      handler(`if ((await redis.get(key)) !== null) return res.json({});
    if ((await redis.set(key, 'busy', 'EX', 3600, 'NX')) !== 'OK') return res.json({});
    return res.json(await mails.send(req.body.id));`),
      // What it does before is to look.
      handler(`if ((await redis.get(key)) !== null) return res.json({});
    if ((await mails.find(req.body.id)) === null) return res.json({});
    if ((await redis.set(key, 'busy', 'EX', 3600, 'NX')) !== 'OK') return res.json({});
    return res.json(await mails.send(req.body.id));`),
      // It sets the key before its work, and stores the answer after that.
      handler(`const before = await redis.get(key);
    if (before !== null) return res.json({ before });
    if ((await redis.set(key, 'busy', 'EX', 3600, 'NX')) !== 'OK') return res.json({});
    const mail = await mails.send(req.body.id);
    await redis.set(key, JSON.stringify(mail), 'KEEPTTL', 'XX');
    return res.json(mail);`),
    ],
  },
};

describe.each(Object.entries(LOCKS))('%s', (id, { wrong, right }) => {
  it.each(wrong.map((text, i) => [i, text] as const))('is found: %i', async (_, text) => {
    await expect(idsOf(text)).resolves.toContain(id);
  });

  it.each(right.map((text, i) => [i, text] as const))('and nothing is of what comes close: %i', async (_, text) => {
    await expect(idsOf(text)).resolves.toEqual([]);
  });
});

it('says of a lock that ends with another key that it cannot be audited, and not of one that never ends', async () => {
  const dead = "if redis.call('exists', 'session:' .. string.match(cur, '^([^|]+)|')) == 1 then return 0 end";
  const take = (refuses: string): string =>
    `local cur = redis.call('get', KEYS[1]) if cur then ${refuses} end redis.call('set', KEYS[1], ARGV[1]) return 1`;
  await expect(idsOf(session(take(dead)))).rejects.toThrow('is taken over all the same when its holder has died');
  await expect(idsOf(session(take('return 0')))).resolves.toContain('no-ttl');
});

it('asks what throws where a lock is lost', async () => {
  const bag = (lost: string): string => `${HEAD}
class Bag {
  private until = 0;
  private gone = false;
  private timer?: NodeJS.Timeout;
  private token = randomUUID();
  constructor(private redis: Redis, private key: string) {}
  async lock() {
    for (;;) {
      const t = performance.now();
      if ((await this.redis.set(this.key, this.token, 'PX', 6000, 'NX')) === 'OK') { this.until = t + 6000; break; }
      await new Promise((done) => setTimeout(done, 100));
    }
    this.timer = setInterval(async () => {
      const t = performance.now();
      const kept = await this.redis.eval(EXTEND, 1, this.key, this.token, 6000).catch(() => null);
      if (kept === 1 && !this.gone) this.until = t + 6000;
      if (kept === 0) this.gone = true;
    }, 2000);
  }
  check() { if (${lost}) throw new Error('lost'); }
  async unlock() { clearInterval(this.timer); this.gone = true; await this.redis.eval(UNLOCK, 1, this.key, this.token); }
}
export const bagOf = (redis: Redis, key: string) => new Bag(redis, key);`;
  await expect(idsOf(bag('this.gone || performance.now() > this.until - 1500'), 40)).resolves.toEqual([]);
  await expect(idsOf(bag('this.gone'), 40)).resolves.toEqual(['silent-loss']);
});

it('takes no key for the lock that is set whether or not it is there, before the lock is asked for', async () => {
  const seen = (sets: string, nx: string): string => `${HEAD}
export async function withLock(redis: Redis, key: string, fn: () => Promise<void>) {
  const token = randomUUID();
  ${sets}
  if ((await redis.set(key, token, 'PX', 9000${nx})) !== 'OK') throw new Error('locked');
  try { await fn(); } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;
  const SEES = "await redis.set('worker:' + process.pid + ':seen', String(Date.now()), 'PX', 60_000);";
  await expect(idsOf(seen(SEES, ", 'NX'"), 40)).resolves.toEqual([]);
  await expect(idsOf(seen('', ''), 40)).resolves.toContain('check-then-set');
});
