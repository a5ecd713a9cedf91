/**
 * Dispatch orders for battery parks.
 *
 * Two control rooms can send charge and discharge orders. A park is steered by one
 * dispatcher at a time, also while the line between the control rooms is down: the
 * lock is kept on four independent Redis nodes, two in each room, and counts when
 * the majority of them has granted it.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const NODES = [
  { host: 'north-1.lock.grid', port: 6379 },
  { host: 'north-2.lock.grid', port: 6379 },
  { host: 'south-1.lock.grid', port: 6379 },
  { host: 'south-2.lock.grid', port: 6379 },
];
const MAJORITY = Math.ceil(NODES.length / 2);

const LOCK_MS = 20_000;
const ATTEMPTS = 4;
const ORDER_TIMEOUT_MS = 6_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const nodes = NODES.map((address) => {
  const client = new Redis({
    ...address,
    commandTimeout: 300,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 1,
  });
  client.on('error', (err) => console.warn(`${address.host}: ${err.message}`));
  return client;
});

/** Another dispatcher steers the park, or too few nodes can be reached. */
export class ParkNotAvailableError extends Error {
  override name = 'ParkNotAvailableError';
}

/** Too little of the lock is left to send another order. */
export class OrderWindowClosedError extends Error {
  override name = 'OrderWindowClosedError';
}

/** The park did not accept the order. */
export class OrderRefusedError extends Error {
  override name = 'OrderRefusedError';
}

async function tryLock(key: string, token: string): Promise<number | null> {
  const startedAt = performance.now();
  const votes = await Promise.allSettled(
    nodes.map((node) => node.set(key, token, 'PX', LOCK_MS, 'NX')),
  );
  const granted = votes.filter((v) => v.status === 'fulfilled' && v.value === 'OK').length;
  const validUntil = startedAt + LOCK_MS - (LOCK_MS * 0.01 + 2);
  return granted >= MAJORITY && performance.now() < validUntil ? validUntil : null;
}

async function unlock(key: string, token: string): Promise<void> {
  // all nodes, as an answer may have been lost on its way to us
  await Promise.allSettled(nodes.map((node) => node.eval(RELEASE, 1, key, token)));
}

/**
 * Runs `steer` while this dispatcher has the park.
 *
 * @param steer gets a function telling how many milliseconds of the lock are left
 * @throws {ParkNotAvailableError} after ATTEMPTS attempts
 */
export async function withPark<T>(
  parkId: string,
  steer: (remainingMs: () => number) => Promise<T>,
): Promise<T> {
  const key = `park:${parkId}:dispatch`;

  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const token = randomUUID();
    try {
      const validUntil = await tryLock(key, token);
      if (validUntil !== null) return await steer(() => validUntil - performance.now());
    } finally {
      await unlock(key, token);
    }
    await sleep(150 + Math.random() * 350);
  }
  throw new ParkNotAvailableError(`park ${parkId} cannot be locked`);
}

/** Sends a series of set points (kW; negative is charging) to one park. */
export function sendOrders(parkId: string, setPoints: number[]): Promise<number> {
  return withPark(parkId, async (remainingMs) => {
    let sent = 0;
    for (const kw of setPoints) {
      if (remainingMs() < ORDER_TIMEOUT_MS + 500) {
        throw new OrderWindowClosedError(`${sent} of ${setPoints.length} orders sent`);
      }
      const res = await fetch(`https://${parkId}.parks.grid/orders`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ kw, step: sent }),
        signal: AbortSignal.timeout(ORDER_TIMEOUT_MS),
      });
      if (!res.ok) throw new OrderRefusedError(`${parkId} answered ${res.status}`);
      sent += 1;
    }
    return sent;
  });
}
