import { expect, it } from 'vitest';
import { idsOf } from './testing/audited.js';

/** A lock whose waiters stand in a line; a ticket is taken out where its wait has ended, and `before` each try. */
const queue = (ended: string, before: string): string => `import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const ENTER = "\
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end \
if not redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end \
redis.call('LPOP', KEYS[1]) return 1";
const LEAVE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
export async function acquire(redis: Redis, name: string, ttlMs: number): Promise<string> {
  const [line, ticket, alive] = [name + ':line', randomUUID(), name + ':alive:'];
  await redis.set(alive + ticket, '1', 'PX', 5_000);
  await redis.rpush(line, ticket);
  try {
    for (const endMs = Date.now() + 2_000; Date.now() < endMs; await sleep(50)) {
      ${before}
      if ((await redis.eval(ENTER, 2, line, name, ticket, ttlMs)) === 1) return ticket;
    }
  } catch (error) {
    await redis.lrem(line, 0, ticket);
    throw error;
  }
  ${ended}
  throw new Error('busy');
}
export async function release(redis: Redis, name: string, ticket: string): Promise<void> {
  await redis.eval(LEAVE, 1, name, ticket);
}`;

const TAKES_OUT_DEAD = `const head = await redis.lindex(line, 0);
      if (head !== null && (await redis.exists(alive + head)) === 0) await redis.lrem(line, 1, head);
      await redis.pexpire(alive + ticket, 5_000);`;

it('finds a waiter that dies and stays in the line', async () => {
  // One that would give up soon.
  expect(await idsOf(queue('await redis.lrem(line, 0, ticket);', '').replace('+ 2_000', '+ 1_000'))).toContain(
    'waiter-kept',
  );
  expect(await idsOf(queue('', ''))).toContain('waiter-kept');
  expect(await idsOf(queue('await redis.lrem(line, 0, ticket);', ''))).toContain('waiter-kept');
});

it('lets pass one whose waiters take out who has died', async () => {
  expect(await idsOf(queue('await redis.lrem(line, 0, ticket);', TAKES_OUT_DEAD))).toEqual([]);
});
