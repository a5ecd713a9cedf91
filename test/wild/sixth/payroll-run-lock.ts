import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

export class LockUnavailableError extends Error {
  constructor(key: string) {
    super(`could not lock "${key}" in time`);
    this.name = 'LockUnavailableError';
  }
}

export class LockExpiredError extends Error {
  constructor(key: string) {
    super(`lock "${key}" ran out while it was in use`);
    this.name = 'LockExpiredError';
  }
}

export interface HeldLock {
  readonly key: string;
  /** Milliseconds for which we may still rely on the lock. */
  remaining(): number;
  /** Call it before every step that must not run twice. */
  assertHeld(): void;
}

export interface LockOptions {
  ttlMs?: number;
  waitMs?: number;
  signal?: AbortSignal;
}

/**
 * Runs `fn` while holding `key`, e.g.
 *
 *   await withLock(client, 'payroll:2024-06', async (lock) => {
 *     for (const employee of employees) {
 *       lock.assertHeld();
 *       await pay(employee);
 *     }
 *   });
 */
export async function withLock<T>(
  client: Client,
  key: string,
  fn: (lock: HeldLock) => Promise<T>,
  { ttlMs = 30_000, waitMs = 10_000, signal }: LockOptions = {},
): Promise<T> {
  const token = randomUUID();
  const giveUpAt = performance.now() + waitMs;
  let deadline = 0;

  for (;;) {
    signal?.throwIfAborted();
    const askedAt = performance.now();
    const reply = await client.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: ttlMs },
    });
    if (reply === 'OK') {
      deadline = askedAt + ttlMs;
      break;
    }
    if (performance.now() >= giveUpAt) throw new LockUnavailableError(key);
    await sleep(50 + Math.random() * 100);
  }

  const lock: HeldLock = {
    key,
    remaining: () => Math.max(0, deadline - performance.now()),
    assertHeld() {
      if (performance.now() >= deadline) throw new LockExpiredError(key);
    },
  };

  try {
    // the answer may have taken its time
    lock.assertHeld();
    return await fn(lock);
  } finally {
    await client
      .eval(UNLOCK, { keys: [key], arguments: [token] })
      .catch((err: Error) => console.warn(`unlock of ${key} failed, it will expire: ${err.message}`));
  }
}
