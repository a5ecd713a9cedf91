import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';

/** How a lock is used, and its key; nothing is searched. */
async function understoodOf(text: string): Promise<string> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(path, text);
  const { understood } = await auditFile({ path, runs: 0, seed: '', budgetMs: 1_000 }, () => {});
  return understood.join('\n');
}

const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const TAKES = `import type { Redis } from 'ioredis';
const UNLOCK = ${JSON.stringify(UNLOCK)};
async function take(redis: Redis, key: string, ttlMs: number) {
  const token = String(Math.random());
  return (await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK' ? { key, token } : null;
}`;

it.each([
  [
    'that only its own functions make, with their defaults',
    `${TAKES}
export class Locks {
  private constructor(private redis: Redis, private ttlMs: number) {}
  static open(redis: Redis, ttlMs = 4_500) { return new Locks(redis, ttlMs); }
  async run(key: string, fn: () => Promise<void>) { if (await take(this.redis, key, this.ttlMs)) await fn(); }
}`,
    'Locks.open.run (lock.ts:10) runs work under the lock',
  ],
  [
    'that is entered and left',
    `${TAKES}
export const enterLot = (redis: Redis, lot: string) => take(redis, 'lot:' + lot, 8_000);
export const leaveLot = (redis: Redis, held: { key: string; token: string }) => redis.eval(UNLOCK, 1, held.key, held.token);`,
    'enterLot (lock.ts:7) acquires, and leaveLot releases',
  ],
  [
    'of a handler that tells what comes next nothing but errors, and that wants a long name',
    `${TAKES}
interface Req { header(name: string): string | undefined }
interface Res { status(code: number): Res; end(): void }
export function handler(redis: Redis) {
  return async (req: Req, res: Res, next: (error: unknown) => void) => {
    const id = req.header('idempotency-key');
    if (!id || !/^[\\w-]{8,64}$/.test(id)) { res.status(400).end(); return; }
    try {
      const held = await take(redis, 'once:' + id, 9_000);
      res.status(held ? 200 : 409).end();
    } catch (error) { next(error); }
  };
}`,
    'its key is "once:00000000-0000-4000-8000-000000000061"',
  ],
  [
    'of which another class of the file is a part',
    `${TAKES}
export class Locks {
  constructor(private redis: Redis) {}
  take(key: string) { return take(this.redis, 'job:' + key, 5_000); }
}
export const runJob = async (locks: Locks, name: string, work: () => Promise<void>) => {
  if (await locks.take(name)) await work();
};`,
    'its key is "job:a"',
  ],
  [
    'of functions that a server has of a library',
    `import type { Redis } from 'ioredis';
const CODE = \`#!lua name=seats
redis.register_function('take', function(keys, args)
  return redis.call('set', keys[1], args[1], 'NX', 'PX', args[2]) and 1 or 0
end)
redis.register_function('give', function(keys, args)
  return redis.call('get', keys[1]) == args[1] and redis.call('del', keys[1]) or 0
end)\`;
export class Seats {
  constructor(private redis: Redis) {}
  async acquire(seat: string, ttlMs: number) {
    await this.redis.function('LOAD', 'REPLACE', CODE);
    const token = String(Math.random());
    return (await this.redis.fcall('take', 1, 'seat:' + seat, token, ttlMs)) === 1 ? token : null;
  }
  async release(seat: string, token: string) { await this.redis.fcall('give', 1, 'seat:' + seat, token); }
}`,
    'its key is "seat:a"',
  ],
  [
    'of what a factory makes of the functions that it is handed',
    `${TAKES}
export async function createWorker(redis: Redis, { resize, log = console }: { resize(id: string): Promise<void>; log?: Console }) {
  async function processImage(id: string) {
    const held = await take(redis, 'image:' + id, 6_000);
    if (held === null) return;
    await resize(id);
    log.info(id);
    await redis.eval(UNLOCK, 1, held.key, held.token);
  }
  return { processImage };
}`,
    'createWorker.processImage (lock.ts:8) does its own work under the lock',
  ],
  ...[
    'if (req.headers.get("authorization") !== `Bearer $' +
      '{process.env.CRON_SECRET}`) return new Response(null, { status: 401 });',
    'const sent = req.headers.get("x-cron-secret"); if (sent !== process.env.CRON_SECRET) return new Response(null, { status: 401 });',
  ].map((authorized) => [
    'of a request that has to have a secret of the environment',
    `${TAKES}
export const cron = (redis: Redis, mail: { send(): Promise<void> }) => async function GET(req: Request): Promise<Response> {
  ${authorized}
  const held = await take(redis, 'digest', 8_000);
  if (held !== null) await mail.send();
  if (held !== null) await redis.eval(UNLOCK, 1, held.key, held.token);
  return Response.json({ done: held !== null });
};`,
    'its key is "digest"',
  ]),
  [
    'for which a request is verified first, and whose work comes one by one',
    `${TAKES}
interface Deps { redis: Redis; verify(text: string): { id: string } | null; rows: (id: string) => AsyncIterable<string>; save(row: string): Promise<void> }
export const receive = ({ redis, verify, rows, save }: Deps) => async (req: Request) => {
  const event = verify(await req.text());
  if (event === null) return;
  const held = await take(redis, 'event:' + event.id, 7_000);
  if (held === null) return;
  for await (const row of rows(event.id)) await save(row);
  await redis.eval(UNLOCK, 1, held.key, held.token);
};`,
    'its key is "event:a"',
  ],
  [
    'that has no function but one whose name is otherwise that of a release',
    `${TAKES}
export class Ledger {
  constructor(private readonly redis: Redis, private readonly books: { seal(month: string): Promise<void> }) {}
  async close(month: string) {
    const held = await take(this.redis, 'ledger:' + month, 9_000);
    if (held === null) return;
    await this.books.seal(month).finally(() => this.redis.eval(UNLOCK, 1, held.key, held.token));
  }
}`,
    'Ledger.close (lock.ts:9) does its own work under the lock',
  ],
  [
    'that has no function but one whose name is otherwise that of an extension',
    `${TAKES}
export async function renewCertificate(redis: Redis, domain: string, acme: { order(domain: string): Promise<void> }) {
  const held = await take(redis, 'cert:' + domain, 9_000);
  if (held === null) return;
  await acme.order(domain).finally(() => redis.eval(UNLOCK, 1, held.key, held.token));
}`,
    'renewCertificate (lock.ts:7) does its own work under the lock',
  ],
  [
    'whose work is called for each job of a queue, as one is put into that',
    `${TAKES}
export async function drain(redis: Redis, tenant: string, handle: (job: string) => Promise<void>) {
  const held = await take(redis, 'jobs:' + tenant + ':lock', 9_000);
  if (held === null) return;
  for (let job = await redis.rpop('jobs:' + tenant); job !== null; job = await redis.rpop('jobs:' + tenant)) await handle(job);
  await redis.eval(UNLOCK, 1, held.key, held.token);
}`,
    'drain (lock.ts:7) runs work under the lock',
  ],
  [
    'in a function that a factory gives, which looks as if it released what the factory acquires',
    `${TAKES}
export function statements({ redis, bank }: { redis: Redis; bank: { load(account: string): Promise<void> } }) {
  const inSession = async (work: () => Promise<void>) => {
    const held = await take(redis, 'bank:session', 9_000);
    if (held !== null) await work().finally(() => redis.eval(UNLOCK, 1, held.key, held.token));
    return held !== null;
  };
  return async (job: { account: string }) => inSession(() => bank.load(job.account));
}`,
    'statements (lock.ts:7) does its own work under the lock',
  ],
  [
    'of two things that may not be one',
    `${TAKES}
export async function move(redis: Redis, from: string, into: string, bank: { move(from: string, into: string): Promise<void> }) {
  if (from === into) throw new TypeError('two accounts');
  const held = await take(redis, 'account:' + from, 9_000);
  if (held === null) return;
  await bank.move(from, into).finally(() => redis.eval(UNLOCK, 1, held.key, held.token));
}`,
    'its key is "account:a"',
  ],
  [
    'for a request that has to have texts in a list',
    `${TAKES}
interface Seats { hold(show: string, seats: string[]): Promise<string> }
export const holdHandler = (redis: Redis, seats: Seats) => async (req: { show: string; seats: string[] }) => {
  if (req.seats.length === 0) return { status: 400 };
  const held = await take(redis, 'show:' + req.show + ':' + req.seats.join('+'), 9_000);
  if (held === null) return { status: 409 };
  await seats.hold(req.show, req.seats).finally(() => redis.eval(UNLOCK, 1, held.key, held.token));
  return { status: 201 };
};`,
    'its key is "show:a:a"',
  ],
  [
    'by a method that uses private ones and has a default',
    `import type { Redis } from 'ioredis';
const UNLOCK = ${JSON.stringify(UNLOCK)};
export class Lock {
  readonly #redis: Redis;
  constructor(redis: Redis) { this.#redis = redis; }
  async run<T>(name: string, work: (isHeld: () => boolean) => Promise<T>, waitMs = 10_000): Promise<T> {
    const token = await this.#take(name, waitMs);
    try { return await work(() => true); } finally { await this.#redis.eval(UNLOCK, 1, 'lock:' + name, token); }
  }
  async #take(name: string, waitMs: number): Promise<string> {
    const token = String(Math.random());
    if ((await this.#redis.set('lock:' + name, token, 'PX', 9_000, 'NX')) !== 'OK') throw new Error('busy for ' + waitMs);
    return token;
  }
}`,
    'Lock.run (lock.ts:6) runs work under the lock',
  ],
  [
    'over a connection that only a function of the file makes',
    `import { connect as dial } from 'node:net';
const UNLOCK = ${JSON.stringify(UNLOCK)};
class Wire {
  private waiting: ((line: string) => void)[] = [];
  constructor(private socket: import('node:net').Socket) {
    socket.on('data', (text) => String(text).split('\\r\\n').slice(0, -1).forEach((line) => this.waiting.shift()?.(line)));
  }
  ask(...words: string[]): Promise<string> {
    this.socket.write('*' + words.length + '\\r\\n' + words.map((it) => '$' + it.length + '\\r\\n' + it + '\\r\\n').join(''));
    return new Promise((done) => this.waiting.push(done));
  }
}
export async function open(host = process.env.REDIS_HOST ?? 'localhost', port = 6379) { return new Wire(dial(port, host)); }
export async function acquire(conn: Wire, key: string, token: string, ttlMs: number) {
  return (await conn.ask('SET', key, token, 'NX', 'PX', String(ttlMs))) === '+OK';
}
export const release = (conn: Wire, key: string, token: string) => conn.ask('EVAL', UNLOCK, '1', key, token);`,
    'acquire (lock.ts:14) acquires, and release releases',
  ],
])('uses a lock %s', async (_, text, said) => expect(await understoodOf(text)).toContain(said));
