import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
`;

/** Starts a worker whose jobs are done once, and tried so many times. */
const grading = (attempts: string, failed: string): string => `${HEAD}
import { Queue, Worker, type Job } from 'bullmq';
const connection = { host: 'n0', port: 6379 };
export const essays = new Queue('essays', { connection });
export function hand(essayId: string) { return essays.add('grade', { essayId }, ${attempts}); }
interface Grades { find(id: string): Promise<{ text: string; unsubscribed: boolean }>; save(id: string): Promise<void> }
export async function startGrading(grades: Grades): Promise<void> {
  new Worker('essays', async ({ data: { essayId } }: Job<{ essayId: string }>) => {
    const key = 'essay:graded:' + essayId;
    if ((await redis.set(key, randomUUID(), 'EX', 864_000, 'NX')) !== 'OK') return 'graded already';
    try {
      const essay = await grades.find(essayId);
      if (essay.unsubscribed) return 'not wanted';
      await grades.save(essayId);
    } catch (error) { ${failed} }
    return 'graded';
  }, { connection });
}`;
const THRICE = '{ attempts: 3 }';

it('finds a job that a worker skips when it is tried again, in a function that starts that worker', async () => {
  const { ids, understood } = await audited(grading(THRICE, 'throw error;'));
  expect(understood).toContain('startGrading.Worker (lock.ts) does its own work under the lock');
  expect(ids).toEqual(['kept-on-error']);
});

it.each([
  ['is tried once', '{ removeOnComplete: true }', 'throw error;'],
  ['deletes its key when it fails', THRICE, 'await redis.del(key); throw error;'],
  ['is no longer tried when it has failed', THRICE, "await redis.rpush('essays:failed', essayId);"],
])('lets pass a job that %s', async (_, attempts, failed) => {
  expect(await idsOf(grading(attempts, failed))).toEqual([]);
});

/** Does something for each of a list, in up to eight seconds each: \`list\` is what is asked for it, \`before\` comes first. */
const copying = (list: string, before = ''): string => `${HEAD}
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
interface Tracks { missing(label: string, most?: number): Promise<{ id: string }[]>; add(id: string, tags: string): Promise<void> }
export async function tag(label: string, tracks: Tracks): Promise<void> {
  const [key, token, from] = ['tag:' + label, randomUUID(), performance.now()];
  if ((await redis.set(key, token, 'PX', 40_000, 'NX')) !== 'OK') return;
  try {
    for (const { id } of await ${list}) {
      ${before}
      try {
        const answer = await fetch(process.env.TAGS_URL + '/' + id, { signal: AbortSignal.timeout(8_000) });
        await tracks.add(id, await answer.text());
      } catch (error) { console.error(id, error); }
    }
  } finally { await redis.eval(UNLOCK, 1, key, token); }
}`;

it('finds that the parts of a list take longer than the TTL together, though each has a time limit', async () => {
  expect(await idsOf(copying('tracks.missing(label)'))).toEqual(['work-outlasts-ttl']);
});

it.each([
  ['of a limited length', copying('tracks.missing(label, 4)', '// At most four: see the limit above.')],
  ['that it leaves in time', copying('tracks.missing(label)', 'if (performance.now() - from > 25_000) break;')],
])('lets pass a list %s', async (_, text) => {
  expect(await idsOf(text)).toEqual([]);
});

/** Sends commands to devices, one at a time; `owner` is who holds the lock. */
const commanding = (owner: string): string => `${HEAD}
const AGAIN = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], 30000) end return 0";
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class Commands {
  private readonly owner = randomUUID();
  private readonly depth = new Map<string, number>();
  constructor(private readonly client: Redis) {}
  async locked<T>(deviceId: string, work: () => Promise<T>): Promise<T> {
    const [key, owner] = ['device:' + deviceId, ${owner}];
    if ((await this.client.set(key, owner, 'PX', 30_000, 'NX')) !== 'OK' && (await this.client.eval(AGAIN, 1, key, owner)) !== 1)
      throw new Error('busy');
    this.depth.set(key + owner, (this.depth.get(key + owner) ?? 0) + 1);
    try { return await work(); } finally {
      const left = (this.depth.get(key + owner) ?? 1) - 1;
      this.depth.set(key + owner, left);
      if (left === 0) await this.client.eval(UNLOCK, 1, key, owner);
    }
  }
}`;

it('finds that two calls of one object work at once on one key, which each is told to have', async () => {
  expect(await idsOf(commanding('this.owner'))).toEqual(['lets-tasks-in']);
  expect(await idsOf(commanding('randomUUID()'))).toEqual([]);
});

/** Starts what is done each minute, and gives what stops that. */
const started = (renews: string): string => `${HEAD}
import pg from 'pg';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const db = new pg.Pool();
export async function bill(shop: string): Promise<void> {
  const key = 'bill:' + shop, token = randomUUID();
  ${renews}
  try { await db.query('UPDATE bills SET sent = true WHERE shop = $1', [shop]); }
  finally { await redis.eval(UNLOCK, 1, key, token); }
}
async function tick(): Promise<void> {
  for (const shop of (process.env.SHOPS || 'north,south').split(',')) await bill(shop).catch(() => {});
}
export function start(): () => Promise<void> {
  void tick();
  const timer = setInterval(tick, 60_000);
  return async () => {
    clearInterval(timer);
    await db.end();
    redis.disconnect();
  };
}`;

it('takes no function for a lock that starts work which releases its own', async () => {
  const { ids, understood } = await audited(
    started("if ((await redis.set(key, token, 'PX', 30_000, 'NX')) !== 'OK') return;"),
  );
  expect(understood).toContain('bill (lock.ts:8) does its own work under the lock');
  expect(ids).toEqual([]);
  expect(await idsOf(started("await redis.set(key, token, 'PX', 30_000, 'NX');"))).toEqual(['fails-open']);
});
