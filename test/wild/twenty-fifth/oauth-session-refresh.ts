import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

export type Session = { userId: string; accessToken: string; refreshToken: string; expiresAt: number };

export type Failure = 'signed-out' | 'busy' | 'provider-down';
export type Result<T> = { ok: true; value: T } | { ok: false; why: Failure };
const ok = <T>(value: T): Result<T> => ({ ok: true, value });
const fail = (why: Failure): Result<never> => ({ ok: false, why });

/** The provider rotates: every refresh token can be exchanged exactly once. */
export type Exchange = (
  refreshToken: string,
  signal: AbortSignal,
) => Promise<Omit<Session, 'userId'> | 'invalid_grant'>;

type Deps = { redis: RedisClientType; exchange: Exchange };

const LOCK_MS = 15_000;
const WAIT_MS = 8_000;
const EXCHANGE_MS = 5_000;
const EARLY_MS = 60_000;

const sessionKey = (sid: string) => `sess:${sid}`;
const lockKey = (sid: string) => `sess:${sid}:refreshing`;

const UNLOCK = `return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0`;

const acquire = async (redis: RedisClientType, key: string): Promise<string | null> => {
  const token = randomUUID();
  const until = performance.now() + WAIT_MS;
  do {
    if ((await redis.set(key, token, { NX: true, PX: LOCK_MS })) === 'OK') return token;
    await sleep(50 + Math.random() * 50);
  } while (performance.now() < until);
  return null;
};

const release = (redis: RedisClientType, key: string, token: string) =>
  redis.eval(UNLOCK, { keys: [key], arguments: [token] }).catch(() => 0);

const load = async (redis: RedisClientType, sid: string): Promise<Session | null> => {
  const raw = await redis.get(sessionKey(sid));
  return raw === null ? null : (JSON.parse(raw) as Session);
};

/**
 * Returns a session whose access token is good for at least another minute. A page fires
 * several API calls at once, and they may land on different instances, hence the lock: only
 * one of them talks to the provider at a time.
 */
export const liveSession =
  ({ redis, exchange }: Deps) =>
  async (sid: string): Promise<Result<Session>> => {
    const session = await load(redis, sid);
    if (session === null) return fail('signed-out');
    if (session.expiresAt - Date.now() > EARLY_MS) return ok(session);

    const token = await acquire(redis, lockKey(sid));
    if (token === null) return fail('busy');

    try {
      const answer = await exchange(session.refreshToken, AbortSignal.timeout(EXCHANGE_MS));

      if (answer === 'invalid_grant') {
        // The user revoked us or changed the password: this session is over.
        await redis.del(sessionKey(sid));
        return fail('signed-out');
      }

      const fresh: Session = { userId: session.userId, ...answer };
      // XX: a sign-out during the exchange wins.
      const kept = await redis.set(sessionKey(sid), JSON.stringify(fresh), { XX: true, KEEPTTL: true });
      return kept === 'OK' ? ok(fresh) : fail('signed-out');
    } catch {
      return fail('provider-down');
    } finally {
      await release(redis, lockKey(sid), token);
    }
  };
