import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  lazyConnect: true,
  maxRetriesPerRequest: 2,
});

const TTL_MS = 30_000;
const RESERVE_MS = 5_000;

const RELEASE = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end`;

export interface Held {
  /** fires RESERVE_MS before the key expires in Redis; everything the function does has to stop then */
  signal: AbortSignal;
  throwIfLate(): void;
}

/**
 * Runs fn while holding the lock `name`, or returns undefined if somebody else has it.
 * There is no renewal: fn gets TTL - RESERVE and has to be done by then.
 */
export async function withLock<T>(name: string, fn: (held: Held) => Promise<T>): Promise<T | undefined> {
  const key = `lock:${name}`;
  const token = randomUUID();
  const end = Date.now() + TTL_MS - RESERVE_MS; // taken before the command goes out

  const ok = await redis.set(key, token, 'PX', TTL_MS, 'NX');
  if (ok !== 'OK') return undefined;

  const ctl = new AbortController();
  const timer = setTimeout(() => ctl.abort(new Error(`out of time for ${name}`)), end - Date.now());
  const throwIfLate = () => {
    if (Date.now() >= end) throw new Error(`out of time for ${name}`);
    ctl.signal.throwIfAborted();
  };
  try {
    throwIfLate();
    return await fn({ signal: ctl.signal, throwIfLate });
  } finally {
    clearTimeout(timer);
    try {
      await redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      console.warn(`lock ${key} not released, it expires within ${TTL_MS} ms`, err);
    }
  }
}

export interface Credentials {
  accessToken: string;
  refreshToken: string;
  expiresAt: number;
}
export interface CredentialStore {
  load(tenant: string): Promise<Credentials>;
  save(tenant: string, c: Credentials, signal: AbortSignal): Promise<void>;
}
export type Refresh = (refreshToken: string, signal: AbortSignal) => Promise<Credentials>;

/** Refresh tokens of this provider can be used once only, so one refresh at a time per tenant. */
export async function accessToken(tenant: string, store: CredentialStore, refresh: Refresh): Promise<string> {
  for (let attempt = 0; attempt < 50; attempt++) {
    const current = await store.load(tenant);
    if (current.expiresAt > Date.now() + 60_000) return current.accessToken;

    const fresh = await withLock(`oauth:${tenant}`, async ({ signal, throwIfLate }) => {
      const again = await store.load(tenant);
      if (again.expiresAt > Date.now() + 60_000) return again;
      throwIfLate();
      const next = await refresh(again.refreshToken, signal);
      throwIfLate();
      await store.save(tenant, next, signal);
      return next;
    });
    if (fresh) return fresh.accessToken;
    await new Promise((r) => setTimeout(r, 200 + Math.random() * 200));
  }
  throw new Error(`no access token for ${tenant}`);
}
