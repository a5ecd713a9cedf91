import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

/** Takes every key or none. */
const ACQUIRE_ALL = `
for _, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return 1
`;

/** Renews only if every key is still ours. */
const RENEW_ALL = `
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) ~= ARGV[1] then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[2])
end
return 1
`;

const RELEASE_ALL = `
local released = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    released = released + redis.call('DEL', key)
  end
end
return released
`;

export interface WithLocksOptions {
  /** Lease duration in milliseconds; renewed while the callback runs. @default 10000 */
  leaseMs?: number;
  /** Attempts before giving up. @default 20 */
  attempts?: number;
  /** Base pause between two attempts in milliseconds, jittered. @default 150 */
  pauseMs?: number;
  /** Key prefix. On a cluster use a hash tag, e.g. `{lots}:lock:`. @default "lock:" */
  prefix?: string;
}

export interface HeldLocks {
  /** Aborted when the locks are lost; pass it on to whatever you call. */
  readonly signal: AbortSignal;
  /** Throws {@link LocksLostError} if the locks cannot be relied on any more. */
  assertHeld(): void;
}

export class LocksUnavailableError extends Error {
  constructor(readonly resources: readonly string[]) {
    super(`Could not lock: ${resources.join(', ')}`);
    this.name = 'LocksUnavailableError';
  }
}

export class LocksLostError extends Error {
  constructor(readonly resources: readonly string[]) {
    super(`Locks were lost: ${resources.join(', ')}`);
    this.name = 'LocksLostError';
  }
}

/**
 * Runs `fn` while holding a lock on each of `resources`. All locks are taken in one step,
 * so two callers with overlapping sets cannot deadlock.
 *
 * If the locks are lost on the way, `signal` aborts and the returned promise rejects with
 * {@link LocksLostError} even if `fn` returned normally.
 *
 * @remarks Leases end on a timer. Check `assertHeld()` before a decisive write and make that
 * write conditional on the version you read; a process frozen in between cannot be stopped
 * by any lease.
 */
export async function withLocks<T>(
  client: RedisClientType,
  resources: readonly string[],
  fn: (held: HeldLocks) => Promise<T>,
  { leaseMs = 10_000, attempts = 20, pauseMs = 150, prefix = 'lock:' }: WithLocksOptions = {},
): Promise<T> {
  const keys = [...new Set(resources)].map((resource) => prefix + resource);
  if (keys.length === 0) throw new TypeError('withLocks needs at least one resource');

  const token = randomUUID();
  const lease = String(leaseMs);
  const lost = new AbortController();
  const release = () => client.eval(RELEASE_ALL, { keys, arguments: [token] }).catch(() => undefined);
  const safeUntil = (sentAt: number) => sentAt + leaseMs * 0.9;

  let validUntil = 0;
  for (let attempt = 1; validUntil === 0; attempt++) {
    const sentAt = performance.now();
    try {
      const taken = await client.eval(ACQUIRE_ALL, { keys, arguments: [token, lease] });
      if (taken === 1 && performance.now() < safeUntil(sentAt)) {
        validUntil = safeUntil(sentAt);
        break;
      }
      if (taken === 1) await release();
    } catch (error) {
      void release(); // the reply may be what got lost
      throw error;
    }
    if (attempt >= attempts) throw new LocksUnavailableError(resources);
    await delay(pauseMs * (0.5 + Math.random()));
  }

  const lose = () => lost.abort(new LocksLostError(resources));
  let finished = false;
  let expiry = setTimeout(lose, validUntil - performance.now());
  const renewal = setInterval(async () => {
    const sentAt = performance.now();
    const renewed = await client.eval(RENEW_ALL, { keys, arguments: [token, lease] }).catch(() => undefined);
    if (renewed === undefined || finished || lost.signal.aborted) return;
    if (renewed !== 1) return lose();
    validUntil = Math.max(validUntil, safeUntil(sentAt));
    clearTimeout(expiry);
    expiry = setTimeout(lose, Math.max(0, validUntil - performance.now()));
  }, leaseMs / 3);

  const assertHeld = () => {
    if (finished || performance.now() >= validUntil) lose();
    lost.signal.throwIfAborted();
  };

  try {
    const result = await fn({ signal: lost.signal, assertHeld });
    assertHeld();
    return result;
  } finally {
    finished = true;
    clearInterval(renewal);
    clearTimeout(expiry);
    await release();
  }
}
