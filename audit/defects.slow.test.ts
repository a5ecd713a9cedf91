import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';

/** What using a lock with nothing in its way says of it; nothing is searched. */
async function saidOf(text: string): Promise<string> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(path, text);
  const { findings, notes } = await auditFile({ path, runs: 0, seed: '', budgetMs: 1_000 }, () => {});
  return [...findings.map(({ id, sentence }) => `${id}: ${sentence}`), ...notes].join('\n');
}

const COMPARES = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

const HEAD = `import type { Redis } from 'ioredis';
const UNLOCK = ${JSON.stringify(COMPARES)};
const EXTEND = ${JSON.stringify(COMPARES.replace("'del', KEYS[1]", "'pexpire', KEYS[1], ARGV[2]"))};
const later = (ms: number) => new Promise((done) => setTimeout(done, ms));
`;

/** Enters again where the process has the key already: with `first`, for any caller. */
const entering = (first: string): string => `${HEAD}
const tokens = new Map<string, string>();
export class Bins {
  constructor(private redis: Redis) {}
  async lock(bin: string): Promise<boolean> {
    ${first}
    const token = String(Math.random());
    if ((await this.redis.set(bin, token, 'PX', 8000, 'NX')) !== 'OK') return false;
    tokens.set(bin, token);
    return true;
  }
  async unlock(bin: string) {
    const token = tokens.get(bin) ?? '';
    tokens.delete(bin);
    await this.redis.eval(UNLOCK, 1, bin, token);
  }
}`;

/** Answers what it has answered before; `first` and `then` are done on both sides of its work. */
const answering = (first: string, then: string): string => `${HEAD}
interface Mails { send(id: string): Promise<{ id: string }> }
interface Res { json(body: unknown): void }
export const handler = (redis: Redis, mails: Mails) =>
  async (req: { body: { id: string } }, res: Res) => {
    const key = 'mail:' + req.body.id;
    const before = await redis.get(key);
    if (before !== null) return res.json({ before });
    ${first}
    const mail = await mails.send(req.body.id);
    ${then}
    return res.json(mail);
  };`;
const ONCE = "'sent', 'EX', 3600, 'NX'";

/** Extends its lock by a script that sets its key, where `owner` is as this says. */
const reviving = (where: string): string => `${HEAD}
const AGAIN = \`local owner = redis.call('get', KEYS[1])
${where} then
  redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0\`;
export class Frame {
  constructor(private redis: Redis) {}
  async acquire(key: string, ttlMs: number) {
    const [token, redis] = [String(Math.random()), this.redis];
    let until = Date.now() + ttlMs - 500;
    if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;
    return {
      isHeld: () => Date.now() < until,
      release: () => { until = 0; return redis.eval(UNLOCK, 1, key, token); },
      extend: async (ms: number) => {
        const from = Date.now();
        const isExtended = (await redis.eval(AGAIN, 1, key, token, ms)) === 1;
        until = isExtended ? from + ms - 500 : 0;
        return isExtended;
      },
    };
  }
}`;

const renewable = (renewed: string): string => `${HEAD}
export class Lease {
  private until = 0;
  constructor(private redis: Redis, private key: string, private token: string, from: number) {
    this.until = from + 7_000;
  }
  static async take(redis: Redis, key: string) {
    const [token, from] = [String(Math.random()), Date.now()];
    return (await redis.set(key, token, 'PX', 8000, 'NX')) === 'OK' ? new Lease(redis, key, token, from) : null;
  }
  get msLeft() { return this.until - Date.now(); }
  async renew() {
    const from = Date.now();
    const answer = await this.redis.eval(EXTEND, 1, this.key, this.token, 8000);
    ${renewed}
  }
  async release() { this.until = 0; await this.redis.eval(UNLOCK, 1, this.key, this.token); }
}`;

const oneOf = (fails: string): string => `${HEAD}
export class Basket {
  constructor(private nodes: Redis[]) {}
  async acquire(key: string) {
    const token = String(Math.random());
    for (const node of this.nodes) {
      try {
        if ((await Promise.race([node.set(key, token, 'PX', 8000, 'NX'), later(500).then(() => { throw new Error(); })])) !== 'OK') return null;
        return { release: () => node.eval(UNLOCK, 1, key, token) };
      } catch (error) { ${fails} }
    }
    throw new Error('no server');
  }
}`;

const storing = (draws: string, writes: string): string => `${HEAD}
export class Store {
  constructor(private redis: Redis, private sql: { run(text: string, fence: number): Promise<void> }) {}
  async save(id: string, fence = 0) { ${writes} await this.sql.run('UPDATE …', fence); }
}
export class Planner {
  constructor(private redis: Redis, private store: Store) {}
  async plan(key: string, solve: () => Promise<void>) {
    const token = String(Math.random());
    const redis = this.redis;
    ${TAKE}
    try { ${draws} await solve(); await this.store.save(key, fence); } ${FREE}
  }
}`;

/** Does its own work, and hands on a fencing token that is drawn before it has the lock, or then. */
const saving = (isBefore: boolean): string => `${HEAD}
interface Store { save(id: string, fence: number): Promise<void> }
export async function save(redis: Redis, store: Store, key: string) {
  const token = String(Math.random());
  ${isBefore ? "const fence = await redis.incr('fence:' + key);" : ''}
  ${TAKE}
  try { ${isBefore ? '' : "const fence = await redis.incr('fence:' + key);"} await store.save(key, fence); } ${FREE}
}`;

const comparing = (seen: string): string => `${fenced('await redis.incr("fence")')}
export const WRITE = \`local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and ${seen} then return 0 end
return redis.call('HSET', KEYS[1], 'fence', ARGV[1])\`;`;

const withLock = (rest: string): string => `${HEAD}
export async function withLock(redis: Redis, key: string, fn: () => Promise<void>) {
  const token = String(Math.random());
  ${rest}
}`;

const TAKE = "if ((await redis.set(key, token, 'PX', 8000, 'NX')) !== 'OK') throw new Error('locked');";
const FREE = 'finally { await redis.eval(UNLOCK, 1, key, token); }';

const pairOf = (acquire: string, release: string): string => `${HEAD}
export async function acquire(redis: Redis, key: string, token: string) { ${acquire} }
export async function release(redis: Redis, key: string, token: string) { ${release} }`;

const SET = "return (await redis.set(key, token, 'PX', 8000, 'NX')) === 'OK';";
const FREES = 'await redis.eval(UNLOCK, 1, key, token);';
const WATCHED = "return (await redis.multi().set(key, token, 'PX', 8000).exec()) !== null;";
const OWN_WATCHED = `const own = redis.duplicate(); try { await own.watch(key); if (await own.exists(key)) return false; ${WATCHED.replace('redis', 'own')} } finally { own.disconnect(); }`;
const renewing = (everyMs: number): string => `${TAKE}
  const timer = setInterval(() => redis.eval(EXTEND, 1, key, token, 8000), ${everyMs});
  try { await fn(); } finally { clearInterval(timer); await redis.eval(UNLOCK, 1, key, token); }`;

const fenced = (fence: string, before = '', after = ''): string => `${HEAD}
let count = 0;
export async function acquire(redis: Redis, key: string, ttlMs: number) {
  const token = String(Math.random());
  ${before}
  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;
  ${after}
  return { token, fence: ${fence}, count };
}
export async function release(redis: Redis, key: string, { token }: { token: string }) { ${FREES} }`;

const taking = (ttl: string): string => TAKE.replace("'PX', 8000", ttl);
const lasting = (ttl: string, sent: string): string =>
  withLock(`${taking(sent)} try { return await fn(); } ${FREE}`).replace('\nexport', `\nconst ${ttl}\nexport`);
/** The default of a variable of the environment, as `zod` has it. */
const SCHEMA = 'env = z.object({ LOCK_TTL_SEC: z.coerce.number().default(90) }).parse(process.env)';
const withOptions = (ttl: string, otherwise: string, sent: string): string => `${HEAD}
interface Options {
  ${ttl}
}
export async function withLock(redis: Redis, key: string, fn: () => Promise<void>, { ttl = ${otherwise} }: Options = {}) {
  const token = String(Math.random());
  ${taking(sent)} try { return await fn(); } ${FREE}
}`;

const several = (claimedMs: number): string => `${HEAD}
export class Quorum {
  constructor(private nodes: Redis[]) {}
  async acquire(key: string) {
    const token = String(Math.random());
    const from = Date.now();
    const all = await Promise.all(this.nodes.map((it) => it.set(key, token, 'PX', 30, 'NX').catch(() => null)));
    if (all.filter((it) => it === 'OK').length <= this.nodes.length / 2) return null;
    return { key, token, validUntil: from + ${claimedMs} };
  }
  async release({ key, token }: { key: string; token: string }) {
    await Promise.allSettled(this.nodes.map((it) => it.eval(UNLOCK, 1, key, token)));
  }
}`;

const quorumOf = (nodes: string, needed: string, renew: string): string => `${HEAD}
export class Quorum {
  constructor(private nodes: Redis[]${nodes}) {}
  async withLock(key: string, fn: (signal: AbortSignal) => Promise<void>) {
    const token = String(Math.random());
    const lost = new AbortController();
    const ask = (it: (node: Redis) => Promise<unknown>) =>
      Promise.all(this.nodes.map((node) => Promise.race([it(node).catch(() => null), later(100)])));
    let until = Date.now() + 7_900;
    const votes = await ask((it) => it.set(key, token, 'PX', 8000, 'NX'));
    if (votes.filter((it) => it === 'OK').length < ${needed}) {
      await ask((it) => it.eval(UNLOCK, 1, key, token));
      throw new Error('locked');
    }
    const timer = setInterval(async () => {
      const from = Date.now();
      const done = (await ask((it) => it.eval(EXTEND, 1, key, token, 8000))).filter((it) => it === 1).length;
      if (${renew}) until = from + 7_900;
      else if (Date.now() > until - 2_500) lost.abort();
    }, 2_000);
    try { await fn(lost.signal); } finally { clearInterval(timer); await ask((it) => it.eval(UNLOCK, 1, key, token)); }
  }
}`;
/** Releases where this holds. */
const numbered = (holds: string): string =>
  `await redis.eval("local by = tonumber(ARGV[2]) if ${holds} then return redis.call('del', KEYS[1]) end return by", 1, key, token, 0);`;
const MAJORITY = 'Math.floor(this.nodes.length / 2) + 1';
const HALF = 'Math.ceil(this.nodes.length / 2)';
const LISTED = " = 'a:1,b:2,c:3'.split(',').map((it) => it as unknown as Redis)";

it.each([
  [
    'no-majority: it takes 2 of 4 nodes for enough',
    quorumOf('', HALF, `done >= ${HALF}`),
    quorumOf('', MAJORITY, `done >= ${MAJORITY}`),
  ],
  // Half of three is a majority where it is rounded up.
  [
    'no-majority: it takes 2 of 4 nodes for enough',
    quorumOf(LISTED.replace('c:3', 'c:3,d:4'), HALF, `done >= ${HALF}`),
    quorumOf(LISTED, HALF, `done >= ${HALF}`),
  ],
  [
    'extends-by-few: it takes an extension for done that fewer than a majority of its nodes have granted',
    quorumOf('', MAJORITY, 'done > 0'),
    quorumOf('', MAJORITY, `done >= ${MAJORITY}`),
  ],
  [
    'releases-early: it releases the lock before its work is done',
    withLock(`${TAKE} try { return fn(); } ${FREE}`),
    withLock(`${TAKE} try { return await fn(); } ${FREE}`),
  ],
  // Only what is compared counts, and not what is a number besides.
  [
    'its release compares its token as a number (tonumber)',
    pairOf(SET, numbered("tonumber(redis.call('get', KEYS[1])) == tonumber(ARGV[1])")),
    pairOf(SET, numbered("tonumber(ARGV[2]) == 0 and redis.call('get', KEYS[1]) == ARGV[1]")),
  ],
  [
    'never-frees: its release does not delete its key',
    pairOf(SET, "await redis.eval(UNLOCK, 1, key, 'x', token);"),
    pairOf(SET, 'await redis.eval(UNLOCK, 1, key, token);'),
  ],
  // Who finds a result asks for nothing: that does not say that the key is there.
  [
    'never-frees: its release does not delete its key',
    withLock(`${TAKE} try { await fn(); } finally { await redis.eval(UNLOCK, 1, token, key); }`),
    withLock(
      `if (await redis.get('result')) return; ${TAKE} try { await fn(); await redis.set('result', '1'); } ${FREE}`,
    ),
  ],
  [
    'refused-release: a process that was refused the key deletes it all the same, without looking whose it is (DEL)',
    pairOf(
      `const got = (await redis.set(key, token, 'PX', 8000, 'NX')) === 'OK'; if (!got) await redis.del(key); return got;`,
      'await redis.eval(UNLOCK, 1, key, token);',
    ),
    pairOf(
      `const got = (await redis.set(key, token, 'PX', 8000, 'NX')) === 'OK'; if (!got) await redis.eval(UNLOCK, 1, key, token); return got;`,
      'await redis.eval(UNLOCK, 1, key, token);',
    ),
  ],
  [
    'refused-release: a process that was refused the key reads it, deletes it and asks again, to take over a stale lock, by several commands (GET, then DEL)',
    pairOf(
      `let got = await redis.set(key, token, 'PX', 8000, 'NX'); if (!got && (await redis.get(key)) !== 'x') { await redis.del(key); got = await redis.set(key, token, 'PX', 8000, 'NX'); } return got === 'OK';`,
      'await redis.eval(UNLOCK, 1, key, token);',
    ),
    pairOf(
      `let got = await redis.set(key, token, 'PX', 8000, 'NX'); if (!got && (await redis.get(key)) === 'x') { await redis.del(key); got = await redis.set(key, token, 'PX', 8000, 'NX'); } return got === 'OK';`,
      'await redis.eval(UNLOCK, 1, key, token);',
    ),
  ],
  [
    'refused-extension: a process that was refused the key gives it a new TTL all the same (PEXPIRE)',
    pairOf(
      'const all = await redis.multi().setnx(key, token).pexpire(key, 8000).exec(); return all?.[0]?.[1] === 1;',
      'await redis.eval(UNLOCK, 1, key, token);',
    ),
    pairOf(
      "const all = await redis.multi().setnx(key, token).pexpire(key, 8000, 'NX').exec(); return all?.[0]?.[1] === 1;",
      'await redis.eval(UNLOCK, 1, key, token);',
    ),
  ],
  [
    'its release compares before it watches (GET, then WATCH, then DEL)',
    pairOf(
      SET,
      'if ((await redis.get(key)) !== token) return; await redis.watch(key); await redis.multi().del(key).exec();',
    ),
    pairOf(
      SET,
      'const own = redis.duplicate(); await own.watch(key); if ((await own.get(key)) === token) await own.multi().del(key).exec(); own.disconnect();',
    ),
  ],
  [
    'it looks whether the key is there and sets it with a second command (EXISTS, then SET without NX)',
    pairOf(`if (await redis.exists(key)) return false; ${WATCHED}`, FREES),
    pairOf(OWN_WATCHED, FREES),
  ],
  [
    'late-extension: it extends its key for the first time after 12 s, and its key lives for 8 s',
    withLock(renewing(12_000)),
    withLock(renewing(2_000)),
  ],
  [
    'seconds-as-ms: its TTL is 90 ms: 90, which is LOCK_TTL_SEC, is handed to Redis as milliseconds (PX)',
    `import { z } from 'zod';\n${lasting(SCHEMA, "'PX', env.LOCK_TTL_SEC")}`,
    `import { z } from 'zod';\n${lasting(SCHEMA, "'PX', env.LOCK_TTL_SEC * 1000")}`,
  ],
  [
    'seconds-as-ms: its TTL is 90 ms: 90, which is LOCK_TTL_SECONDS, is handed to Redis as milliseconds (PX)',
    lasting('LOCK_TTL_SECONDS = 90', "'PX', LOCK_TTL_SECONDS"),
    lasting('LOCK_TTL_SECONDS = 90', "'PX', LOCK_TTL_SECONDS * 1000"),
  ],
  [
    'ms-as-seconds: its TTL is 1500 s: 1500, which is LEASE, is handed to Redis as seconds (EX)',
    lasting('LEASE = 1_500; // ms', "'EX', LEASE"),
    lasting('LEASE = 1_500; // ms', "'PX', LEASE"),
  ],
  [
    'seconds-as-ms: its TTL, where it is not given one, is 30 ms: 30 is handed to Redis as milliseconds (PX)',
    withOptions('/** Lifetime. */ ttl?: number', '30', "'PX', ttl"),
    withOptions('/** Lifetime. */ ttl?: number', '30', "'EX', ttl"),
  ],
  [
    'seconds-as-ms: it is given its TTL in seconds and hands it to Redis as milliseconds (PX)',
    withOptions('ttl?: number; // in seconds', '600', "'PX', ttl"),
    withOptions('ttl?: number; // in ms', '600', "'PX', ttl"),
  ],
  [
    'fencing-token: its fencing token does not rise from one holder to the next: it is the time that the clock',
    fenced('Date.now()'),
    fenced('await redis.incr("fence")'),
  ],
  [
    'fencing-token: its fencing token is drawn before it has the lock',
    fenced('drawn', "const drawn = await redis.incr('fence');"),
    fenced('drawn', '', "const drawn = await redis.incr('fence');"),
  ],
  ['fencing-token: its fencing token is drawn before it has the lock', saving(true), saving(false)],
  [
    'fencing-token: its fencing token does not rise from one holder to the next: each process has a counter of its own',
    fenced('++count'),
    fenced('await redis.incr("fence")'),
  ],
  [
    'lets-tasks-in: it lets two tasks of one process in at once: for a key that the process has already',
    entering('if (tokens.has(bin)) return true;'),
    entering(''),
  ],
  [
    'guard-released: oncePerFiring says that its work is done once',
    withLock(`${TAKE} try { return await fn(); } ${FREE}`).replace('withLock', 'oncePerFiring'),
    withLock(`${TAKE} try { return await fn(); } ${FREE}`),
  ],
  [
    'it does not look at the answer to its extension',
    renewable('this.until = from + 7_000;'),
    renewable("if (answer !== 1) { this.until = 0; throw new Error('lost'); } this.until = from + 7_000;"),
  ],
  [
    'done-before-guard: it looks at its key (GET), does its work, and sets the key only after that (SET)',
    answering('', `await redis.set(key, ${ONCE});`),
    answering(`if ((await redis.set(key, ${ONCE})) !== 'OK') return res.json({});`, ''),
  ],
  [
    'revives-lock: its extension sets the key again where that has expired',
    reviving('if owner == false or owner == ARGV[1]'),
    reviving('if owner == ARGV[1]'),
  ],
  ['fails-over: it takes the lock on another node where the first does not answer', oneOf(''), several(25)],
  [
    'fencing-token: its fencing token is drawn when the work is done',
    storing('const fence = 0;', 'fence = await this.redis.incr("fence:" + id);'),
    storing('const fence = await redis.incr("fence:" + key);', ''),
  ],
  [
    'fencing-token: its script compares fencing tokens as texts',
    comparing('ARGV[1] < seen'),
    comparing('tonumber(ARGV[1]) < tonumber(seen)'),
  ],
  ['seconds-as-ms: its key lives for 30 ms, and it says that it is held for 29.9 s', several(29_900), several(25)],
])('says %s, and not of a lock that does not', async (sentence, wrong, right) => {
  expect(await saidOf(wrong)).toContain(sentence);
  const said = (await saidOf(right)).split('\n');
  expect(said.filter((it) => !/^(?:nobody ever got the lock|it was not tried by two tasks)/.test(it))).toEqual([]);
});

it('takes for no late extension what stores the answer when the work is done', async () => {
  const stores = (how: string): string =>
    withLock(`if ((await redis.set(key, 'busy', 'EX', 3600, 'NX')) !== 'OK') return;
  await fn();
  await redis.set(key, 'done', ${how});`);
  for (const how of ["'KEEPTTL', 'XX'", "'EX', 7200, 'XX'"])
    expect(await saidOf(stores(how))).not.toContain('late-ext');
});
