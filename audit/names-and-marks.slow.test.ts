import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
async function locked<T>(redis: Redis, key: string, work: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') throw new Error('busy');
  try { return await work(); } finally { await redis.eval(UNLOCK, 1, key, token); }
}
`;

/** Claims a name of which the case does not matter: its lock is named after \`name\`. */
const claiming = (name: string, looked = 'lower'): string => `${HEAD}
interface Users { findByName(lower: string): Promise<object | null>; setName(user: string, lower: string): Promise<void> }
export class Names {
  constructor(private readonly redis: Redis, private readonly users: Users) {}
  async claim(nick: string, owner: { id: string }): Promise<void> {
    const lower = nick.toLowerCase();
    await locked(this.redis, 'lock:name:' + ${name}, async () => {
      await this.users.findByName(${looked});
      await this.users.setName(owner.id, ${looked});
    });
  }
}`;

it('finds a lock that is named after a name as it is given, and guards data that is named after it in lower case', async () => {
  expect(await idsOf(claiming('nick'))).toEqual(['locks-apart']);
});

it.each([
  ['names both in lower case', claiming('lower')],
  ['names both as the name is given', claiming('nick', 'nick')],
])('lets pass one that %s', async (_, text) => {
  expect(await idsOf(text)).toEqual([]);
});

/** Takes seats and gives them back. */
const seats = (lockOfBack: string): string => `${HEAD}
export class Seats {
  constructor(private readonly redis: Redis) {}
  async reserve(event: string, section: string, count: number): Promise<void> {
    await locked(this.redis, 'lock:' + event + ':' + section, async () => {
      const free = Number((await this.redis.hget('free:' + event, section)) ?? 100);
      await this.redis.hset('free:' + event, section, free - count);
    });
  }
  async giveBack(event: string, section: string, count: number): Promise<void> {
    await locked(this.redis, ${lockOfBack}, async () => {
      const free = Number((await this.redis.hget('free:' + event, section)) ?? 100);
      await this.redis.hset('free:' + event, section, free + count);
    });
  }
}`;

it('finds that what is named like a release changes the same value under another lock', async () => {
  expect(await idsOf(seats("'lock:' + event"))).toEqual(['locks-apart']);
  expect(await idsOf(seats("'lock:' + event + ':' + section"))).toEqual([]);
});

/** A job of a queue that sends a mail once: \`before\` and \`after\` are around that. */
const mailing = (before: string, after: string, failed = ''): string => `${HEAD}
import { Worker, type Job } from 'bullmq';
const redis = new Redis(process.env.REDIS_URL!);
async function send(to: string): Promise<void> {
  const answer = await fetch(process.env.MAIL_API + '/send', { method: 'POST', body: to });
  if (!answer.ok) throw new Error('not sent');
}
export const worker = new Worker('mail', async (job: Job<{ id: string; to: string }>) => {
  const sent = 'mail:sent:' + job.data.id;
  await locked(redis, 'lock:mail:' + job.data.id, async () => {
    if (await redis.exists(sent)) return;
    ${before}
    try { await send(job.data.to); } catch (error) { ${failed} throw error; }
    ${after}
  });
}, { connection: { host: 'n0', port: 6379 } });`;

const MARK = "await redis.set(sent, '1', 'EX', 604800);";

it('finds a mark that is stored before the work of a job, and stays when that fails', async () => {
  const { ids, understood } = await audited(mailing(MARK, ''));
  expect(understood).toContain('Worker (lock.ts) does its own work');
  expect(ids).toEqual(['marks-undone']);
});

it.each([
  ['stores it after the work', mailing('', MARK)],
  ['deletes it when the work fails', mailing(MARK, '', 'await redis.del(sent);')],
])('lets pass a job that %s', async (_, text) => {
  expect(await idsOf(text)).toEqual([]);
});

/** A consumer of a list that does each thing once. */
const consumer = (failed: string): string => `
import type { Redis } from 'ioredis';
interface Photo { photoId: string; url: string }
interface Store { put(id: string, bytes: ArrayBuffer): Promise<void> }
export class Photos {
  constructor(private readonly redis: Redis, private readonly store: Store) {}
  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const raw = await this.redis.blmove('photos', 'photos:now', 'RIGHT', 'LEFT', 1);
      if (raw === null) continue;
      const photo = JSON.parse(raw) as Photo;
      const mark = 'photo:' + photo.photoId;
      if ((await this.redis.set(mark, '1', 'EX', 86_400, 'NX')) === 'OK') {
        try {
          const answer = await fetch(photo.url, { signal: AbortSignal.timeout(10_000) });
          await this.store.put(photo.photoId, await answer.arrayBuffer());
        } catch {
          ${failed}
          await this.redis.lpush('photos', raw);
        }
      }
      await this.redis.lrem('photos:now', 1, raw);
    }
  }
}`;

it('finds a message of a list that is dropped when it comes again after its work has failed', async () => {
  expect(await idsOf(consumer(''))).toEqual(['kept-on-error']);
  expect(await idsOf(consumer('await this.redis.del(mark);'))).toEqual([]);
});

/** Runs a program under a lock of half a minute. */
const running = (program: string, options: string): string => `${HEAD}
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
interface Videos { update(id: string, state: string): Promise<void> }
export async function transcode(redis: Redis, videoId: string, videos: Videos): Promise<void> {
  await locked(redis, 'video:' + videoId, async () => {
    const child = spawn('${program}', ['-i', videoId, join(process.env.MEDIA_DIR!, videoId)], ${options});
    const [code] = await once(child, 'exit');
    if (code !== 0) throw new Error('it failed');
    await videos.update(videoId, 'ready');
  });
}`;

it('finds a program that takes long, and that nothing ends, under a lock that is not extended', async () => {
  expect(await idsOf(running('ffmpeg', "{ stdio: 'ignore' }"))).toEqual(['work-outlasts-ttl']);
});

it.each([
  ['that a signal ends in time', running('ffmpeg', '{ signal: AbortSignal.timeout(20_000) }')],
  ['that is quick', running('nginx', "{ stdio: 'ignore' }")],
])('lets pass a program %s', async (_, text) => {
  expect(await idsOf(text)).toEqual([]);
});

/** Makes what is not there yet, on three nodes, by a majority of \`nodes\`. */
const making = (nodes: string): string => `
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const nodes = (process.env.LOCK_NODES ?? 'redis://a:6379,redis://b:6379,redis://c:6379').split(',')
  .map((url) => new Redis(url, { enableOfflineQueue: false, maxRetriesPerRequest: 0, commandTimeout: 250 }));
for (const node of nodes) node.on('error', () => {});
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export async function make(slug: string): Promise<void> {
  const [key, token, from] = ['make:' + slug, randomUUID(), performance.now()];
  const replies = await Promise.allSettled(nodes.map((node) => node.set(key, token, 'PX', 30_000, 'NX')));
  const answers = replies.filter((it) => it.status === 'fulfilled');
  const granted = answers.filter((it) => it.value === 'OK').length;
  const isHeld = granted > ${nodes}.length / 2 && performance.now() - from < 5_000;
  try {
    if (!isHeld) throw new Error('busy');
    const signal = AbortSignal.timeout(10_000);
    const there = await fetch(process.env.ADMIN_API + '/tenants/' + slug, { signal });
    if (there.ok) return;
    if (there.status !== 404) throw new Error('not asked');
    await fetch(process.env.ADMIN_API + '/tenants/' + slug, { method: 'PUT', signal });
  } finally { await Promise.allSettled(nodes.map((node) => node.eval(UNLOCK, 1, key, token))); }
}`;

it('does what is done where a server has not found something, with a majority of those that answer', async () => {
  expect(await idsOf(making('answers'))).toEqual(['no-majority']);
  expect(await idsOf(making('nodes'))).toEqual([]);
});

it('hands over a client that a file makes of a connection, though nothing says its type', async () => {
  const text = `import net from 'node:net';
import { once } from 'node:events';
export class Resp {
  #waiting = [];
  static async connect(host = process.env.REDIS_HOST, port = Number(process.env.REDIS_PORT)) {
    const socket = net.connect({ host, port });
    await once(socket, 'connect');
    return new Resp(socket);
  }
  constructor(socket) {
    this.socket = socket;
    socket.on('data', (it) => this.#waiting.shift()?.(/^[$]\\d+\\r\\n(.*)\\r\\n/.exec(String(it))?.[1] ?? String(it).slice(1, -2)));
  }
  send(...words) {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.socket.write('*' + words.length + '\\r\\n' + words.map((it) => '$' + String(it).length + '\\r\\n' + it + '\\r\\n').join(''));
    });
  }
}
export async function plan(redis, aisle, repo) {
  const [key, token] = ['aisle:' + aisle, String(Math.random())];
  if ((await redis.send('SET', key, token, 'NX', 'PX', 20_000)) !== 'OK') return;
  try { await repo.save(aisle); } finally { if ((await redis.send('GET', key)) === token) await redis.send('DEL', key); }
}`;
  expect((await audited(text, 0, 'plan.mjs')).ids).toEqual(['two-step-release']);
});
