import { describe, expect, it } from 'vitest';
import { audited as saidOf } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
`;

it('does not use a function without parameters as an extension', async () => {
  const text = `${HEAD}
import { redis } from './client.ts';
export async function lock(name: string, ttlMs: number) {
  const [key, token, until] = [name, randomUUID(), performance.now() + ttlMs];
  return (await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK' ? { key, token, until } : null;
}
export async function unlock({ key, token }: { key: string; token: string }) { await redis.eval(UNLOCK, 1, key, token); }
export async function refreshRates(): Promise<void> {
  const held = await lock('fx', 20_000);
  if (held) await unlock(held);
}`.replace(
    "import { redis } from './client.ts';",
    "import { Redis as Client } from 'ioredis';\nconst redis = new Client(process.env.REDIS_URL!);",
  );
  await expect(saidOf(text, 24)).resolves.toMatchObject({ ids: [] });
});

it('asks who says that it leads until its lease is over', async () => {
  const leader = (renews: string): string => `${HEAD}
export class Leader {
  #id = randomUUID(); #until = 0; #timer: NodeJS.Timeout | undefined; #leads = false;
  constructor(private redis: Redis, private group: string) {}
  start(): void { this.#timer = setInterval(() => void this.#tick(), 3_000); void this.#tick(); }
  stop(): void { clearInterval(this.#timer); }
  isLeader(): boolean { return this.#leads && performance.now() < this.#until; }
  async #tick(): Promise<void> {
    const from = performance.now();
    const reply = this.#leads ? ${renews} : await this.redis.set(this.group, this.#id, 'PX', 10_000, 'NX');
    this.#leads = reply === 'OK' || reply === 1;
    this.#until = this.#leads ? from + 8_000 : 0;
  }
}`;
  const right = await saidOf(leader('await this.redis.eval(EXTEND, 1, this.group, this.#id, 10_000)'));
  expect(right.understood).toContain('isLeader says who has it');
  expect(right.ids).toEqual([]);
  const { ids } = await saidOf(leader("await this.redis.set(this.group, this.#id, 'PX', 10_000, 'XX')"));
  expect(ids).toEqual(['revives-lock']);
});

it('takes what throws as it begins for what says that the lock is over', async () => {
  const worker = (lost: string): string => `${HEAD}
const LEASE_MS = 60_000;
export class WorkerNumber {
  #beat: NodeJS.Timeout; #last = 0;
  private constructor(private redis: Redis, private token: string, private key: string, private goodUntil: number) {
    this.#beat = setInterval(() => void this.#renew().catch(() => {}), LEASE_MS / 4);
  }
  static async start(redis: Redis): Promise<WorkerNumber> {
    const [token, asked] = [randomUUID(), performance.now()];
    const got = await redis.set('worker', token, 'PX', LEASE_MS, 'NX');
    if (got !== 'OK') throw new Error('taken');
    return new WorkerNumber(redis, token, 'worker', asked + LEASE_MS - 5_000);
  }
  async #renew(): Promise<void> {
    const asked = performance.now();
    if ((await this.redis.eval(EXTEND, 1, this.key, this.token, LEASE_MS)) !== 1) ${lost}
    if (this.goodUntil > asked) this.goodUntil = asked + LEASE_MS - 5_000;
  }
  next(): number {
    // None of a lease that is over.
    if (performance.now() > this.goodUntil) throw new Error('over');
    this.#last += 1;
    return this.#last;
  }
  stop(): void { clearInterval(this.#beat); this.goodUntil = 0; }
}`;
  const { ids } = await saidOf(worker('{ this.goodUntil = 0; return; }'), 40);
  expect(ids).toEqual([]);
  const again = "await this.redis.set(this.key, this.token, 'PX', LEASE_MS);";
  await expect(saidOf(worker(again).replace('if (this.goodUntil > asked)', ''))).resolves.toMatchObject({
    ids: ['revives-lock'],
  });
});

it('calls the function that a curried one gives, though that ends timers', async () => {
  const text = `${HEAD}
export const locked = ({ redis, ttlMs = 20_000 }: { redis: Redis; ttlMs?: number }) =>
  (fn: () => Promise<void>) => async (): Promise<void> => {
    const token = randomUUID();
    if ((await redis.set('l', token, 'PX', ttlMs, 'NX')) !== 'OK') throw new Error('busy');
    const beat = setInterval(() => void redis.eval(EXTEND, 1, 'l', token, ttlMs).catch(() => {}), ttlMs / 4);
    try { await fn(); } finally { clearInterval(beat); await redis.eval(UNLOCK, 1, 'l', token); }
  };`;
  expect((await saidOf(text)).understood).toContain('runs work under the lock');
});

it('passes a secret of the environment, and takes a response for the end of work', async () => {
  const text = (refused: string): string => `
import { Redis } from '@upstash/redis';
const redis = Redis.fromEnv();
export async function GET(req: Request): Promise<Response> {
  const secret = process.env.CRON_SECRET;
  if (!secret || req.headers.get('authorization') !== \`Bearer \${secret}\`) return new Response('no', { status: 401 });
  const day = new Date().toISOString().slice(0, 10);
  const reply = await redis.set('digest:' + day, 'me', { nx: true, ex: 259_200 });
  if (reply !== 'OK') ${refused}
  await fetch(\`\${process.env.MAILER_URL}/digests\`, { method: 'POST', body: day });
  return Response.json({ day });
}`;
  const right = await saidOf(text('return Response.json({ day, skipped: true });'));
  expect(right.understood).toContain('GET (lock.ts:4) does its own work under the lock');
  expect(right.ids).toEqual([]);
  await expect(saidOf(text("console.info('again');"))).resolves.toMatchObject({ ids: ['fails-open'] });
});

it('knows methods that are written out in a type, and a time limit that is longer than the TTL', async () => {
  const billing = (ttl: number): string => `${HEAD}
interface Deps {
  redis: Redis;
  invoices: { isPaid(id: string): Promise<boolean>; markPaid(id: string, charge: string): Promise<void> };
  payments: { charge(id: string, signal: AbortSignal): Promise<{ id: string }> };
}
export function createProcessor({ redis, invoices, payments }: Deps) {
  return async (job: { data: { subscriptionId: string } }): Promise<void> => {
    const [id, token] = [job.data.subscriptionId, randomUUID()];
    if ((await redis.set('billing:' + id, token, 'PX', ${ttl}, 'NX')) !== 'OK') throw new Error('busy');
    try {
      if (await invoices.isPaid(id)) return;
      const charge = await payments.charge(id, AbortSignal.timeout(60_000));
      await invoices.markPaid(id, charge.id);
    } finally { await redis.eval(UNLOCK, 1, 'billing:' + id, token); }
  };
}`;
  await expect(saidOf(billing(120))).resolves.toMatchObject({ ids: ['work-outlasts-ttl', 'seconds-as-ms'] });
  await expect(saidOf(billing(120_000))).resolves.toMatchObject({ ids: [] });
});

describe('a cache', () => {
  const cache = (kept: string): string => `${HEAD}
const STORE = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('set', KEYS[2], ARGV[2], 'PX', 60000) redis.call('del', KEYS[1]) return 1";
export class Cache {
  constructor(private redis: Redis) {}
  async get<T>(name: string, load: () => Promise<T>): Promise<T> {
    const [guard, key, token] = ['refreshing:' + name, 'cache:' + name, randomUUID()];
    const raw = await this.redis.get(key);
    if (raw !== null) return JSON.parse(raw) as T;
    if ((await this.redis.set(guard, token, 'PX', 15_000, 'NX')) !== 'OK') return load();
    const value = await load();
    ${kept}
    return value;
  }
}`;

  it('may ask its source twice', async () => {
    const kept = 'await this.redis.eval(STORE, 2, guard, key, token, JSON.stringify(value));';
    await expect(saidOf(cache(kept), 24)).resolves.toMatchObject({ ids: [] });
    const { ids } = await saidOf(cache('await this.redis.eval(UNLOCK, 1, guard, token);'), 24);
    expect(ids).toContain('fails-open');
  });
});

it('takes the TTL from a key that a heartbeat sets after it has given it one', async () => {
  const beating = (script: string): string => `${HEAD}
const BEAT = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end ${script} return 1";
interface Store { batch(): Promise<void>; convert(): Promise<void> }
export async function migrate(redis: Redis, store: Store): Promise<void> {
  const token = randomUUID();
  if ((await redis.set('m', token, 'PX', 40_000, 'NX')) !== 'OK') return;
  const lost = new AbortController();
  const beat = setInterval(() => redis.eval(BEAT, 1, 'm', token, 40_000).then((it) => { if (it !== 1) lost.abort(); }, () => lost.abort()), 10_000);
  try {
    for (let i = 0; i < 3 && !lost.signal.aborted; i++) { await store.batch(); if (!lost.signal.aborted) await store.convert(); }
  } finally { clearInterval(beat); await redis.eval(UNLOCK, 1, 'm', token); }
}`;
  const [expires, sets] = ["redis.call('pexpire', KEYS[1], ARGV[2])", "redis.call('set', KEYS[1], ARGV[1])"];
  expect((await saidOf(beating(`${expires} ${sets}`))).ids).toContain('drops-ttl');
  expect((await saidOf(beating(`${sets} ${expires}`))).ids).not.toContain('drops-ttl');
});

it('does not call an object that has a method named apply', async () => {
  const text = (work: string): string => `
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export function createJob({ redis, matches, scoring }) {
  return async function rebuild(season) {
    const token = String(Math.random());
    if ((await redis.set('s:' + season, token, { NX: true, PX: 200_000 })) !== 'OK') return false;
    try {
      for await (const match of matches.since(season)) ${work};
      return true;
    } finally { await redis.eval(UNLOCK, { keys: ['s:' + season], arguments: [token] }); }
  };
}`;
  const { understood, ids } = await saidOf(text('scoring.apply(season, match)'), 12);
  expect(understood).toContain('createJob (lock.ts:3) does its own work under the lock');
  expect(ids).toEqual([]);
  expect((await saidOf(text('await scoring.apply(this, [match])'))).understood).toContain('runs work under the lock');
});

it('tells of an extension in other units than the acquisition', async () => {
  const switching = (ttl: string): string => `${HEAD}
interface Contracts { of(id: string): Promise<string[]>; save(id: string, signal: AbortSignal): Promise<void> }
export async function switchAll(redis: Redis, contracts: Contracts, id: string): Promise<void> {
  const token = randomUUID();
  if ((await redis.set('t:' + id, token, 'EX', 45, 'NX')) !== 'OK') return;
  const lost = new AbortController();
  const beat = setInterval(() => redis.eval(EXTEND, 1, 't:' + id, token, ${ttl}).then((it) => { if (it !== 1) lost.abort(); }, () => lost.abort()), 15_000);
  try {
    for (const it of await contracts.of(id)) { lost.signal.throwIfAborted(); await contracts.save(it, lost.signal); }
  } finally { clearInterval(beat); await redis.eval(UNLOCK, 1, 't:' + id, token); }
}`;
  await expect(saidOf(switching('45'))).resolves.toMatchObject({ ids: ['seconds-as-ms'] });
  await expect(saidOf(switching('45_000_000'))).resolves.toMatchObject({ ids: ['ms-as-seconds'] });
  await expect(saidOf(switching('45_000'))).resolves.toMatchObject({ ids: [] });
});

it('works through lists of a subject, and gives what is counted a small number', async () => {
  const printing = (told: string): string => `${HEAD}
interface Press { hasPlate(page: number): Promise<boolean>; expose(page: number): Promise<void> }
export class Worker {
  constructor(private redis: Redis, private press: Press) {}
  async process(edition: { id: string; pages: number[] }, copies: number): Promise<void> {
    if (copies > 5_000) throw new Error('too many');
    const [key, token] = ['print:' + edition.id, randomUUID()];
    if ((await this.redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') return;
    let [isLost, until] = [false, performance.now() + 29_000];
    const beat = setInterval(() => {
      const from = performance.now();
      this.redis.eval(EXTEND, 1, key, token, 30_000).then((it) => { if (it === 1) until = from + 29_000; else isLost = true; }, () => {});
    }, 10_000);
    try {
      for (const page of edition.pages) {
        if (await this.press.hasPlate(page)) continue;
        ${told}
        await this.press.expose(page);
      }
    } finally { clearInterval(beat); await this.redis.eval(UNLOCK, 1, key, token); }
  }
}`;
  await expect(saidOf(printing(''))).resolves.toMatchObject({ ids: ['silent-loss'] });
  const told = "if (isLost || performance.now() > until) throw new Error('lost');";
  await expect(saidOf(printing(told))).resolves.toMatchObject({ ids: [] });
});

it('hands a middleware a request of which nothing is read', async () => {
  const middleware = (events: string): string => `${HEAD}
export function exclusive(redis: Redis, keyOf: (req: unknown) => string) {
  return async function (req, res, next) {
    const [key, token] = ['l:' + keyOf(req), randomUUID()];
    if ((await redis.set(key, token, 'PX', 60_000, 'NX')) !== 'OK') return res.status(409).json({});
    const release = () => void redis.eval(UNLOCK, 1, key, token).catch(() => {});
    ${events}
    req.deadline = AbortSignal.timeout(20_000);
    return next();
  };
}`;
  const early = await saidOf(middleware("res.once('finish', release); res.once('close', release);"));
  expect(early.understood).toContain('runs work under the lock');
  expect(early.ids).toEqual(['releases-early']);
  await expect(saidOf(middleware("res.once('finish', release);"))).resolves.toMatchObject({ ids: [] });
});

/** A lease whose signal is aborted by a failed extension alone, and which says by the clock whether it is over. */
const lease = (says: string): string => `${HEAD}
const TTL_MS = 24_000;
export class Lease {
  #gone = new AbortController(); #timer: NodeJS.Timeout | undefined;
  private constructor(private redis: Redis, private key: string, private token: string, private until: number) { this.#plan(); }
  static async take(redis: Redis, show: string): Promise<Lease | null> {
    const [key, token, from] = ['show:' + show, randomUUID(), Date.now()];
    return (await redis.set(key, token, 'PX', TTL_MS, 'NX')) === 'OK' ? new Lease(redis, key, token, from + TTL_MS) : null;
  }
  get signal(): AbortSignal { return this.#gone.signal; }
  ${says}
  #plan(): void { this.#timer = setTimeout(() => void this.#beat(), 6_000); }
  async #beat(): Promise<void> {
    const from = Date.now();
    const limit = new Promise<number>((resolve) => setTimeout(() => resolve(-1), 4_000));
    const said = await Promise.race([this.redis.eval(EXTEND, 1, this.key, this.token, TTL_MS).catch(() => -1), limit]);
    if (said === 1) this.until = from + TTL_MS;
    else if (said === 0 || Date.now() + 10_000 >= this.until) return this.#lose();
    this.#plan();
  }
  #lose(): void { clearTimeout(this.#timer); this.#gone.abort(); }
  async release(): Promise<void> { clearTimeout(this.#timer); await this.redis.eval(UNLOCK, 1, this.key, this.token); }
}`;

it('takes a lock for held as long as its signal and its check say so', async () => {
  const checks =
    'assertHeld(): void { if (Date.now() >= this.until) this.#lose(); this.#gone.signal.throwIfAborted(); }';
  await expect(saidOf(lease(checks), 60)).resolves.toMatchObject({ ids: [] });
  await expect(saidOf(lease(''), 60)).resolves.toMatchObject({ ids: ['silent-loss'] });
});

it('passes a check to the work beside the signal', async () => {
  const text = (given: string): string =>
    `${HEAD}
export async function withBin(redis: Redis, bin: string, work: (${given}) => Promise<void>): Promise<void> {
  const [key, token] = ['bin:' + bin, randomUUID()];
  let until = Date.now() + 20_000;
  if ((await redis.set(key, token, 'PX', 20_000, 'NX')) !== 'OK') throw new Error('busy');
  const lost = new AbortController();
  const timer = setInterval(async () => {
    const from = Date.now();
    const said = await redis.eval(EXTEND, 1, key, token, 20_000).catch(() => -1);
    if (said === 1) until = from + 20_000;
    else if (said === 0) lost.abort();
  }, 5_000);
  const ensureHeld = (): void => {
    lost.signal.throwIfAborted();
    if (Date.now() > until - 2_000) throw new Error('over');
  };
  try { await work(${given.replaceAll(/: [^,]*(?:\(\) => void)?/g, '')}); } finally { clearInterval(timer); await redis.eval(UNLOCK, 1, key, token); }
}`.replace('work(signal', 'work(lost.signal');
  await expect(saidOf(text('signal: AbortSignal, ensureHeld: () => void'), 40)).resolves.toMatchObject({ ids: [] });
  await expect(saidOf(text('signal: AbortSignal'), 40)).resolves.toMatchObject({ ids: ['silent-loss'] });
});

it('makes requests by the fetch of the file, at another server', async () => {
  const worker = (awaits: string): string => `import { randomUUID } from 'node:crypto';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export function createWorker({ redis, baseUrl, apiKey, fetchImpl = fetch }) {
  async function book({ id, member }) {
    const said = await fetchImpl(baseUrl + '/members/' + member, { method: 'PUT', headers: { authorization: 'Bearer ' + apiKey } });
    if (!said.ok) throw new Error('status ' + said.status + ' for ' + id);
  }
  return async (job) => {
    const [key, token] = ['lock:' + job.data.member, randomUUID()];
    if ((await redis.set(key, token, { NX: true, PX: 60_000 })) !== 'OK') throw new Error('busy');
    try { ${awaits} book(job.data); } finally { await redis.eval(UNLOCK, { keys: [key], arguments: [token] }); }
  };
}`;
  const right = await saidOf(worker('return await'), 12);
  expect(right).toMatchObject({ ids: [] });
  expect(right.understood).toContain('createWorker (lock.ts:3) does its own work under the lock');
  await expect(saidOf(worker('return'))).resolves.toMatchObject({ ids: ['releases-early'] });
});

it('audits a lock beside a function that connects elsewhere', async () => {
  const text = `${HEAD}
import net from 'node:net';
export async function lock(redis: Redis, printer: string): Promise<string | null> {
  const token = randomUUID();
  return (await redis.set(printer, token, 'PX', 60_000, 'NX')) === 'OK' ? token : null;
}
export async function unlock(redis: Redis, printer: string, token: string): Promise<void> { await redis.eval(UNLOCK, 1, printer, token); }
export async function print(redis: Redis, printer: string, label: string, send = to): Promise<void> {
  const token = await lock(redis, printer);
  if (token === null) throw new Error('busy');
  try { await send(printer, label); } finally { await unlock(redis, printer, token); }
}
function to(host: string, label: string): Promise<void> {
  return new Promise((resolve) => net.connect(9100, host).on('close', resolve).end(label));
}`;
  await expect(saidOf(text, 12)).resolves.toMatchObject({ ids: [] });
});

it('takes what makes a value of another at once for no work', async () => {
  const service = (edits: string, awaits: string): string => `${HEAD}
export async function change(redis: Redis, device: string, edit: ${edits}): Promise<string> {
  const token = randomUUID();
  if ((await redis.set('device:' + device, token, 'PX', 15_000, 'NX')) !== 'OK') throw new Error('busy');
  try {
    const next = ${awaits} edit((await redis.get('plan:' + device)) ?? '');
    await redis.set('plan:' + device, String(next));
    return String(next);
  } finally { await redis.eval(UNLOCK, 1, 'device:' + device, token); }
}`;
  const made = await saidOf(service('(plan: string) => string', ''), 8);
  expect(made.understood).toContain('change (lock.ts:6) does its own work under the lock');
  expect(made.ids).toEqual([]);
  const worked = await saidOf(service('(plan: string) => Promise<string>', 'await'));
  expect(worked.understood).toContain('change (lock.ts:6) runs work under the lock');
});

it('knows that two work alike, though each names a file after its token', async () => {
  const text = (refused: string): string => `${HEAD}
import { readFile, rename, writeFile } from 'node:fs/promises';
export async function add(redis: Redis, show: string): Promise<void> {
  const [key, token] = ['feed:' + show, randomUUID()];
  const reply = await redis.set(key, token, 'PX', 30_000, 'NX');
  ${refused}
  try {
    const feed = await readFile('feeds/' + show, 'utf8');
    await writeFile('feeds/' + show + '.' + token, feed + 'x');
    await rename('feeds/' + show + '.' + token, 'feeds/' + show);
  } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;
  await expect(saidOf(text("console.info('locked', reply);"))).resolves.toMatchObject({ ids: ['fails-open'] });
  await expect(saidOf(text("if (reply !== 'OK') throw new Error('busy');"))).resolves.toMatchObject({ ids: [] });
});
