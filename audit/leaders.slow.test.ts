import { expect, it } from 'vitest';
import { idsOf, idsOfModule } from './testing/audited.js';

/** A service that leads by a timer, and trades as long as it does. */
const trader = (renews: string): string => `
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const KEY = 'trader:leader';
const RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
export class Trader {
  private readonly id = randomUUID();
  private leads = false;
  constructor(private readonly redis: Redis, private readonly market: { buy(): Promise<void> }) {}
  onModuleInit(): void { setInterval(() => void this.tick(), 3_000); }
  private async tick(): Promise<void> {
    if (this.leads) { ${renews} }
    else this.leads = (await this.redis.set(KEY, this.id, 'PX', 9_000, 'NX')) === 'OK';
    if (this.leads) await this.market.buy();
  }
}`;

it('finds a leader that ignores a renewal that is refused', async () => {
  expect(await idsOf(trader('await this.redis.eval(RENEW, 1, KEY, this.id, 9_000);'))).toEqual(['silent-loss']);
});

it('finds a leader that renews the key of the next one', async () => {
  expect(await idsOf(trader('this.leads = (await this.redis.pexpire(KEY, 9_000)) === 1;'))).toEqual([
    'blind-extension',
  ]);
});

it('finds nothing where a leader ends its term as its renewal is refused', async () => {
  expect(await idsOf(trader('this.leads = (await this.redis.eval(RENEW, 1, KEY, this.id, 9_000)) === 1;'))).toEqual([]);
});

it('tries what a file begins when its client has connected', async () => {
  const text = `${trader('this.leads = (await this.redis.pexpire(KEY, 9_000)) === 1;').replace('import type', 'import')}
const redis = new Redis(process.env.REDIS_URL!, { enableOfflineQueue: false });
const trader = new Trader(redis, { buy: async () => { await fetch('http://market/buy', { method: 'POST' }); } });
redis.once('ready', () => trader.onModuleInit());`;
  expect(await idsOf(text)).toContain('blind-extension');
});

const SCRIPTS = `
const TTL = 10_000;
const RELEASE = \`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0\`;
const RENEW = \`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0\`;`;
const CHECKED = 'await redis.eval(RENEW, 1, key, id, TTL)';
const UNCHECKED = 'await redis.pexpire(key, TTL)';

/** A leader whose term a timer ends at the latest when its lease is over. */
const campaign = (renews: string, wins: string, loses: string): string => `
  let id = randomUUID();
  let leading = false;
  let until = 0;
  const lose = () => { leading = false; id = randomUUID(); ${loses} };
  const tick = async () => {
    const at = performance.now();
    try {
      if (leading) {
        if (${renews} === 1) until = at + TTL * 0.8; else lose();
      } else if (await redis.set(key, id, 'PX', TTL, 'NX') === 'OK') {
        leading = true;
        until = at + TTL * 0.8;
        ${wins}
      }
    } catch (error) { console.error(error); }
  };
  const timer = setInterval(() => void tick(), 2_500);
  const guard = setInterval(() => { if (leading && performance.now() >= until) lose(); }, 100);
  void tick();
  const stop = async () => {
    clearInterval(timer); clearInterval(guard);
    if (leading) { const was = id; lose(); await redis.eval(RELEASE, 1, key, was); }
  };`;

/** It tells who leads by a function that it is handed, with a signal. */
const byCallback = (renews: string): string => `
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
${SCRIPTS}
export function startElection(redis: Redis, key: string, handlers: { onLeader: (signal: AbortSignal) => void }) {
  let term: AbortController | undefined;
  ${campaign(renews, 'term = new AbortController(); handlers.onLeader(term.signal);', 'term?.abort();')}
  return { stop };
}`;

/** It tells so by events. */
const byEvents = (renews: string): string => `
import { EventEmitter } from 'node:events';
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
${SCRIPTS}
export class Leader extends EventEmitter {
  stop: () => Promise<void> = async () => {};
  constructor(private readonly redis: Redis, private readonly key: string) { super(); }
  start(): void {
    const { redis, key } = this;
    ${campaign(renews, "this.emit('elected');", "this.emit('demoted');")}
    this.stop = stop;
  }
}`;

it.each([
  ['functions that it is handed', byCallback],
  ['events', byEvents],
])('judges a leader that tells of its terms by %s', async (_, file) => {
  expect(await idsOf(file(CHECKED), 40)).toEqual([]);
  expect(await idsOf(file(UNCHECKED), 40)).toEqual(['blind-extension']);
});

/** A leader that keeps for itself that it leads, and looks at the time too before its work. */
const relay = (renews: string, looks: string): string => `
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
${SCRIPTS}
export class Relay {
  private readonly id = randomUUID();
  private leading = false;
  private until = 0;
  private timers: NodeJS.Timeout[] = [];
  constructor(private readonly redis: Redis, private readonly db: Pool) {}
  start(): void {
    this.timers = [setInterval(() => void this.tick(), 2_500), setInterval(() => void this.poll(), 1_000)];
    void this.tick();
  }
  async stop(): Promise<void> {
    this.timers.forEach((it) => clearInterval(it));
    this.leading = false;
    await this.redis.eval(RELEASE, 1, 'relay', this.id);
  }
  private async poll(): Promise<void> {
    if (!this.leading${looks}) return;
    await this.db.query('update outbox set sent_at = now() where sent_at is null');
  }
  private async tick(): Promise<void> {
    const { redis, id } = this;
    const [key, at] = ['relay', performance.now()];
    try {
      if (this.leading) this.leading = ${renews} === 1;
      else this.leading = (await redis.set(key, id, 'PX', TTL, 'NX')) === 'OK';
      if (this.leading) this.until = at + TTL * 0.8;
    } catch (error) { console.error(error); }
  }
}`;

it('judges a leader that keeps for itself that it leads by its work', async () => {
  const looks = ' || performance.now() >= this.until';
  expect(await idsOf(relay(CHECKED, looks), 60)).toEqual([]);
  expect(await idsOf(relay(UNCHECKED, looks), 60)).toContain('blind-extension');
  expect(await idsOf(relay(CHECKED, ''), 60)).toEqual(['silent-loss']);
});

it('finds a leader that does not tell that its renewal was refused', async () => {
  const unguarded = byCallback(CHECKED).replace('leading && performance.now() >= until', 'false');
  expect(await idsOf(unguarded.replace('else lose();', 'else until = at + TTL;'))).toContain('silent-loss');
});

/** It begins by itself what it exports; its duty goes on until it is told to stop. */
const duty = `
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import Redis from 'ioredis';
import { publishBatch } from './outbox.mjs';
${SCRIPTS}
export class Election {
  constructor(redis, { name, serve }) { this.redis = redis; this.key = 'duty:' + name; this.serve = serve; }
  async run() {
    for (;;) {
      const id = randomUUID();
      const at = performance.now();
      if ((await this.redis.set(this.key, id, 'PX', TTL, 'NX').catch(() => null)) === 'OK') await this.lead(id, at);
      await delay(2_500);
    }
  }
  async lead(id, at) {
    const over = new AbortController();
    let until = at + TTL * 0.75;
    const guard = setInterval(() => { if (performance.now() >= until) over.abort(); }, 50);
    const work = this.serve(over.signal).catch(() => {}).finally(() => over.abort());
    while (!over.signal.aborted) {
      await delay(TTL / 4, undefined, { signal: over.signal }).catch(() => {});
      if (over.signal.aborted) break;
      const sentAt = performance.now();
      const kept = await this.redis.eval(RENEW, 1, this.key, id, TTL).catch(() => -1);
      if (kept === 0) over.abort();
      else if (kept === 1 && !over.signal.aborted) until = sentAt + TTL * 0.75;
    }
    clearInterval(guard);
    await work;
    await this.redis.eval(RELEASE, 1, this.key, id).catch(() => {});
  }
}
const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 1_000 });
redis.on('error', () => {});
const election = new Election(redis, { name: 'relay', async serve(signal) {
  while (!signal.aborted) {
    await publishBatch({ limit: 50, timeoutMs: 1_000 });
    await delay(1_000, undefined, { signal }).catch(() => {});
  }
} });
void election.run();`;

it('makes no second object of a class that the file has made and begun itself', async () => {
  expect(await idsOfModule(duty)).toEqual([]);
});

/** A leader that asks for the first time when its interval is over, and measures whether it leads. */
const relayLater = (isLeader: string): string => `
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { pool } from '../db';
import { gauge } from '../metrics';
const TAKE = "local c = redis.call('get', KEYS[1]) if c == false then redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return 1 end if c == ARGV[1] then redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end return 0";
const RESIGN = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end return 1";
export class Relay {
  private readonly id = randomUUID();
  private until = 0;
  private stopping = false;
  private timer?: NodeJS.Timeout;
  private loop?: Promise<void>;
  constructor(private readonly redis: Redis) {}
  async start(): Promise<void> {
    this.timer = setInterval(() => void this.campaign(), 3_000);
    this.loop = this.work();
  }
  async stop(): Promise<void> {
    this.stopping = true;
    await this.loop;
    clearInterval(this.timer);
    this.until = 0;
    await this.redis.eval(RESIGN, 1, 'relay', this.id);
  }
  private isLeader(): boolean { return ${isLeader}; }
  private async campaign(): Promise<void> {
    const at = performance.now();
    const won = await this.redis.eval(TAKE, 1, 'relay', this.id, 12_000).catch(() => null);
    if (won !== null && !this.stopping) this.until = won === 1 ? at + 10_000 : 0;
    gauge('relay_leader', this.isLeader() ? 1 : 0);
  }
  private async work(): Promise<void> {
    while (!this.stopping) {
      if (this.isLeader()) await pool.query('UPDATE outbox SET sent_at = now() WHERE id = 1');
      await sleep(500);
    }
  }
}`;

it('waits for a leader whose timer asks for the first time, and takes what measures for no work', async () => {
  expect(await idsOf(relayLater('performance.now() < this.until'))).toEqual([]);
  expect(await idsOf(relayLater('this.until > 0'), 40)).toContain('silent-loss');
});

/** A script that leads as it is loaded, and works once a second for as long as it does. */
const reminders = (leads: string): string => `
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import { sendDue } from './reminders.mjs';
${SCRIPTS}
const me = randomUUID();
const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', () => {});
let leading = false;
let until = 0;
async function check() {
  const at = performance.now();
  try {
    if (!leading) leading = (await redis.set('reminders', me, { NX: true, PX: TTL })) === 'OK';
    else leading = (await redis.eval(RENEW, { keys: ['reminders'], arguments: [me, String(TTL)] })) === 1;
    if (leading) until = at + TTL * 0.8;
  } catch (error) { console.warn(error.message); }
}
async function work() {
  if (${leads}) await sendDue({ limit: 1 });
  setTimeout(work, 1_000);
}
await redis.connect();
await check();
setInterval(check, 3_000);
void work();`;

it('finds a script that leads on where its renewals fail', async () => {
  expect(await idsOfModule(reminders('leading && performance.now() < until'))).toEqual([]);
  expect(await idsOfModule(reminders('leading'))).toEqual(['silent-loss']);
});

/** A leader whose call goes on until it is told to stop, and works in a loop meanwhile. */
const looping = (leads: string): string => `
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';
${SCRIPTS}
export class Shipper {
  private readonly id = randomUUID();
  private readonly redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000 });
  private readonly db = new Pool();
  private leading = false;
  private until = 0;
  private stopped = false;
  async start(): Promise<void> {
    const timer = setInterval(() => void this.elect(), TTL / 3);
    await this.elect();
    while (!this.stopped) {
      if (${leads}) await this.shipOne().catch((error) => console.error(error));
      await sleep(200);
    }
    clearInterval(timer);
    this.leading = false;
    await this.redis.eval(RELEASE, 1, 'shipper', this.id);
  }
  stop(): void { this.stopped = true; }
  private async elect(): Promise<void> {
    const at = Date.now();
    try {
      if (this.leading) this.leading = (await this.redis.eval(RENEW, 1, 'shipper', this.id, TTL)) === 1;
      else this.leading = (await this.redis.set('shipper', this.id, 'PX', TTL, 'NX')) === 'OK';
      if (this.leading) this.until = at + TTL * 0.8;
    } catch (error) { console.error(error); }
  }
  private async shipOne(): Promise<void> {
    const { rows } = await this.db.query('select id from parcels where shipped_at is null limit 10');
    for (const row of rows) await this.db.query('update parcels set shipped_at = now() where id = $1', [row.id]);
  }
}`;

it('cuts off a leader that works in its loop', async () => {
  expect(await idsOf(looping('this.leading && Date.now() < this.until'), 40)).toEqual([]);
  expect(await idsOf(looping('this.leading'))).toEqual(['silent-loss']);
});
