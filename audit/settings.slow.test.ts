import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

const UNLOCK = `"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"`;

/** A worker that takes its settings from a file that is not there. */
const dispatching = (ttl: string, busy: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { Kafka } from 'kafkajs';
import { config } from '../config';
import { logger } from '../config/logger';
import { pool } from '../db';
const redis = new Redis(config.redis.url, { maxRetriesPerRequest: 1 });
const consumer = new Kafka({ brokers: config.kafkaBrokers }).consumer({ groupId: 'orders' });
export async function dispatch(order: string): Promise<void> {
  const key = 'dispatch:' + order, token = randomUUID();
  if ((await redis.set(key, token, 'PX', ${ttl}, 'NX')) !== 'OK') { logger.warn({ order }, 'busy'); ${busy} }
  try { await pool.query('UPDATE orders SET courier = $2 WHERE id = $1', [order, config.region]); }
  finally { await redis.eval(${UNLOCK}, 1, key, token); }
}`;

/** A service that asks another one for its settings. */
const serving = (ttl: string): string => `import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { ConfigService, type ConfigType } from '@nestjs/config';
import Redis from 'ioredis';
import { lockConfig } from './lock.config';
@Injectable()
export class Locks {
  private readonly redis: Redis;
  constructor(private readonly config: ConfigService, @Inject(lockConfig.KEY) private readonly settings: ConfigType<typeof lockConfig>) {
    this.redis = new Redis(config.getOrThrow<string>('REDIS_URL'), { commandTimeout: 1_000 });
  }
  async withLock<T>(name: string, work: () => Promise<T>): Promise<T> {
    const token = randomUUID();
    if ((await this.redis.set('lock:' + name, token, 'PX', ${ttl}, 'NX')) !== 'OK') throw new Error('locked');
    try { return await work(); } finally { await this.redis.eval(${UNLOCK}, 1, 'lock:' + name, token); }
  }
}`;

it.each([
  ["this.config.get<number>('LOCK_TTL_MS', 20_000)", 20, ''],
  ["this.config.getOrThrow<number>('lock.ttlMs')", 60, 'lock.ttlMs'],
  ["Number(this.config.get('LOCK_TTL_SECONDS')) * 1_000", 60, 'LOCK_TTL_SECONDS'],
  ['this.settings.ttlMs', 60, 'ttlMs'],
])('gives what a service is asked for: %s', async (ttl, seconds, guessed) => {
  const { ids, understood } = await audited(serving(ttl));
  expect(ids).toEqual([]);
  expect(understood).toContain(`its TTL is ${seconds} s`);
  expect(/^(.*): not known, and so guessed$/m.exec(understood)?.[1] ?? '').toBe(guessed);
});

it('finds seconds that are taken for milliseconds in what a service is asked for', async () => {
  expect(await idsOf(serving("this.config.get<number>('LOCK_TTL_SECONDS', 30)"))).toEqual(['seconds-as-ms']);
});

it('guesses settings of a file that is not there, unless the lock may depend on them', async () => {
  const { ids, understood } = await audited(dispatching('30_000', 'return;'));
  expect(ids).toEqual([]);
  expect(understood).toContain('../config: not there, and so not loaded; its settings are guessed by their names');
  expect(await idsOf(dispatching('30_000', ''))).toEqual(['fails-open']);
  await expect(audited(dispatching('config.lockTtlMs', 'return;'))).rejects.toThrow(
    'imports ../config, which is not there',
  );
});

it('takes the value that a file has of its own for a setting on which the lock depends', async () => {
  const { ids, understood } = await audited(dispatching('config.lock?.ttlMs ?? 45_000', 'return;'));
  expect(understood).toContain('its TTL is 45 s');
  expect(ids).toEqual([]);
  const twice = dispatching('config.lock.ttlMs ?? 45_000', 'return config.lock.ttlMs;');
  await expect(audited(twice)).rejects.toThrow('imports ../config, which is not there');
});

/** A lock of a library on several servers, which settings that are not there list in one text. */
const renewing = (servers: string, busy: string): string => `import { Redis } from 'ioredis';
import Redlock from 'redlock5';
import { env } from '../env';
import { charge } from '../payments/charge';
const nodes = ${servers};
const redlock = new Redlock(nodes, { retryCount: 0 });
export async function renew(shard: number): Promise<void> {
  await redlock.using(['renewals:' + shard], 20_000, async (signal) => {
    if (signal.aborted) throw signal.error;
    await charge({ shard, timeoutMs: 5_000 });
  }).catch(async (error) => { ${busy} });
}`;

it('gives several servers for a setting that is split', async () => {
  const block = `env.LOCK_REDIS_URLS.split(',').map((url) => {
  const client = new Redis(url, { maxRetriesPerRequest: 1 });
  client.on('error', () => {});
  return client;
})`;
  const { ids, understood } = await audited(renewing(block, 'throw error;'));
  expect(understood).toContain('3 nodes, by ioredis');
  expect(ids).toEqual([]);
  const places = `(env.lock.nodes ?? '').split(/[;,]/).map((it) => it.split(':')).map(([host, port]) => new Redis({ host, port: Number(port) }))`;
  expect((await audited(renewing(places, 'throw error;'))).understood).toContain('3 nodes, by ioredis');
  expect(await idsOf(renewing(block, 'await charge({ shard, timeoutMs: 5_000 });'))).toContain('fails-open');
  const handed = `((urls: string[]) => urls.map((it) => new Redis(it)))(env.lockNodes)`;
  expect((await audited(renewing(handed, 'throw error;'))).understood).toContain('3 nodes, by ioredis');
  // What is no list of servers is not known.
  const zones = renewing("env.lockZones.split(',').map((it) => new Redis(it))", 'throw error;');
  await expect(audited(zones)).rejects.toThrow('imports ../env, which is not there');
});

/** Moves an amount between two accounts, by locks of these names. */
const moving = (keys: string): string => `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const redis = new Redis();
interface Accounts { add(id: string, cents: number): Promise<void> }
async function take(key: string): Promise<string> {
  const token = randomUUID();
  for (const until = Date.now() + 3_000; ; ) {
    if ((await redis.set(key, token, 'PX', 30_000, 'NX')) === 'OK') return token;
    if (Date.now() > until) throw new Error('busy');
    await new Promise((done) => setTimeout(done, 50));
  }
}
export async function transfer(from: string, to: string, cents: number, accounts: Accounts): Promise<void> {
  if (from === to) throw new Error('the same account');
  const held: [string, string][] = [];
  try {
    for (const key of ${keys}) held.push([key, await take(key)]);
    await accounts.add(from, -cents);
    await accounts.add(to, cents);
  } finally { for (const [key, token] of held) await redis.eval(${UNLOCK}, 1, key, token); }
}`;

it('gives a function two things where it compares them', async () => {
  expect(await idsOf(moving("[from, to].sort().map((it) => 'account:' + it)"), 40)).toEqual([]);
  expect(await idsOf(moving("[from, to].map((it) => 'account:' + it)"))).toEqual(['locks-as-called']);
});

/** Sends a digest once in an hour. */
const digest = (claims: string): string => `import { Redis } from 'ioredis';
const redis = new Redis();
interface Mails { send(hour: string): Promise<void> }
export async function sendDigest(mails: Mails, now = new Date()): Promise<void> {
  const hour = now.toISOString().slice(0, 13);
  ${claims}
  await mails.send(hour);
}`;

it('takes two claims of one process for two where they are of different hours', async () => {
  const claims = "if ((await redis.set('digest:' + hour, '1', 'PX', 21_600_000, 'NX')) !== 'OK') return;";
  expect(await idsOf(digest(claims))).toEqual([]);
});

/** Reads pages until there are no more, under a lock with this TTL. */
const paging = (ttlMs: number): string => `import { randomUUID } from 'node:crypto';
import axios from 'axios';
import { Redis } from 'ioredis';
import pg from 'pg';
const redis = new Redis();
const pool = new pg.Pool();
const bank = axios.create({ baseURL: process.env.BANK_API, timeout: 30_000 });
export async function load(account: string): Promise<void> {
  const key = 'ledger:' + account, token = randomUUID();
  if ((await redis.set(key, token, 'PX', ${ttlMs}, 'NX')) !== 'OK') return;
  try {
    let next = '0';
    for (;;) {
      const { data } = await bank.get('/entries', { params: { account, after: next } });
      next = data.next;
      if (!data.hasMore) break;
    }
    await pool.query('UPDATE accounts SET read_until = $2 WHERE id = $1', [account, next]);
  } finally { await redis.eval(${UNLOCK}, 1, key, token); }
}`;

it('ends a loop that has no other end', async () => {
  expect(await idsOf(paging(10_000))).toEqual(['work-outlasts-ttl']);
  expect(await idsOf(paging(120_000))).toEqual([]);
});
