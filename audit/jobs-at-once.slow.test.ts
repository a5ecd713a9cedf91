import { expect, it } from 'vitest';
import { idsOfModule } from './testing/audited.js';

/** A worker that does several jobs at once; what the process knows of a zone is in `held`. */
const worker = (
  enter: string,
  exit: string,
  run: string,
): string => `import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
const redis = new Redis(process.env.REDIS_URL);
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const held = new Map();
const own = new AsyncLocalStorage();
async function locked(zone, work) {
  ${enter}
  const token = randomUUID();
  for (let left = 60; (await redis.set('zone:' + zone, token, 'PX', 60_000, 'NX')) !== 'OK'; left--) {
    if (left === 0) throw new Error('busy');
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  held.set(zone, token);
  try { return await own.run(zone, work); }
  finally { ${exit} await redis.eval(UNLOCK, 1, 'zone:' + zone, token); }
}
const fill = (zone) => locked(zone, () => db.query('UPDATE bins SET quantity = quantity + 48 WHERE zone = $1', [zone]));
const pick = (order, zone) => locked(zone, async () => {
  await fill(zone);
  await db.query('INSERT INTO picks (order_id, zone) VALUES ($1, $2)', [order, zone]);
});
const waiting = new Map();
function inTurn(order, zone) {
  const next = (waiting.get(zone) ?? Promise.resolve()).catch(() => {}).then(() => pick(order, zone));
  waiting.set(zone, next);
  return next;
}
function once(order, zone) {
  if (!waiting.has(zone)) waiting.set(zone, pick(order, zone).finally(() => waiting.delete(zone)));
  return waiting.get(zone);
}
new Worker('picks', async (job) => ${run}(job.data.order, job.data.zone), { connection: redis, concurrency: 8 });`;

const IN_PROCESS = ['if (held.has(zone)) return work();', 'held.delete(zone);'] as const;

it('finds jobs that enter without the lock as another job of their process has it', async () => {
  expect(await idsOfModule(worker(...IN_PROCESS, 'pick'))).toEqual(['lets-tasks-in']);
  const inSet = worker(...IN_PROCESS, 'pick')
    .replace('held = new Map', 'held = new Set')
    .replace('set(zone, token)', 'add(zone)');
  expect(await idsOfModule(inSet)).toEqual(['lets-tasks-in']);
});

it.each([
  ['knows by the context which calls are nested', 'if (own.getStore() === zone) return work();', '', 'pick'],
  ['does one job of a zone after the other', ...IN_PROCESS, 'inTurn'],
  ['does one job of a zone for all that come meanwhile', ...IN_PROCESS, 'once'],
])('finds nothing in what %s', async (_, ...parts) => {
  expect(await idsOfModule(worker(...(parts as [string, string, string])))).toEqual([]);
});
