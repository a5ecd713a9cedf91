import { expect, it } from 'vitest';
import { audited, idsOf } from './testing/audited.js';

/** A consumer of a stream. \`busy\` is done where another process has the lock, \`failed\` where the work fails. */
const consuming = (
  set: string,
  busy: string,
  failed: string,
  after: string,
): string => `import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { Redis } from 'ioredis';
const redis = new Redis(process.env.REDIS_URL!);
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const [STREAM, GROUP, CONSUMER] = ['readings', 'totals', hostname() + process.pid];
type Entry = [id: string, fields: string[]];
interface Meters { add(meter: string, value: number): Promise<void> }
async function handle(meters: Meters, [id, fields]: Entry): Promise<void> {
  const entry = Object.fromEntries(Array.from({ length: fields.length / 2 }, (_, i) => [fields[2 * i], fields[2 * i + 1]]));
  const [key, token] = ['reading:' + entry.meter, randomUUID()];
  if ((await redis.set(key, token, ${set}, 'NX')) !== 'OK') { ${busy} return; }
  try {
    await meters.add(entry.meter, Number(entry.value));
  } catch (error) {
    ${failed}
    throw error;
  }
  await redis.xack(STREAM, GROUP, id);
  ${after}
}
async function all(meters: Meters, entries: Entry[]): Promise<void> {
  for (const entry of entries) await handle(meters, entry).catch((error) => console.error(entry[0], error));
}
export async function consume(meters: Meters, stop: AbortSignal): Promise<void> {
  await redis.xgroup('CREATE', STREAM, GROUP, '$', 'MKSTREAM').catch(() => {});
  while (!stop.aborted) {
    const [, late] = (await redis.xautoclaim(STREAM, GROUP, CONSUMER, 60_000, '0-0')) as [string, Entry[]];
    await all(meters, late);
    const read = await redis.xreadgroup('GROUP', GROUP, CONSUMER, 'COUNT', 10, 'BLOCK', 5_000, 'STREAMS', STREAM, '>');
    for (const [, entries] of (read ?? []) as [string, Entry[]][]) await all(meters, entries);
  }
}`;
const ACKS = 'await redis.xack(STREAM, GROUP, id);';
const UNLOCKS = 'await redis.eval(UNLOCK, 1, key, token);';

it('calls a consumer of a stream, which finds an entry', async () => {
  const { ids, understood } = await audited(consuming("'PX', 15_000", '', UNLOCKS, UNLOCKS));
  expect(understood).toContain('consume (lock.ts:25) does its own work under the lock');
  expect(ids).toEqual([]);
});

it('finds an entry that is acknowledged though another process has its lock', async () => {
  expect(await idsOf(consuming("'PX', 15_000", ACKS, UNLOCKS, UNLOCKS))).toEqual(['drops-busy']);
});

it('finds an entry that is dropped when it comes again after its work has failed', async () => {
  expect(await idsOf(consuming("'EX', 604_800", ACKS, '', ''))).toEqual(['kept-on-error']);
});

it('lets pass a mark that is deleted where the work fails', async () => {
  expect(await idsOf(consuming("'EX', 604_800", ACKS, 'await redis.del(key);', ''))).toEqual([]);
});
