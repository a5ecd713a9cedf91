import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 2,
  commandTimeout: 2_000,
});

const LOCK_TTL_MS = 30_000;
const REFRESH_TIMEOUT_MS = 10_000;
const EARLY_MS = 60_000;

interface StoredToken {
  accessToken: string;
  refreshToken: string;
  expiresAt: number;
}

const SAVE_IF_OWNER = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  redis.call("SET", KEYS[2], ARGV[2])
  return 1
end
return 0`;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

const lockKey = (id: string) => `crm:{${id}}:refresh-lock`;
const tokenKey = (id: string) => `crm:{${id}}:token`;

async function readToken(id: string): Promise<StoredToken> {
  const raw = await redis.get(tokenKey(id));
  if (raw === null) throw new Error(`connection ${id} has never been authorised`);
  return JSON.parse(raw) as StoredToken;
}

const isFresh = (t: StoredToken) => t.expiresAt - EARLY_MS > Date.now();

async function requestToken(refreshToken: string): Promise<StoredToken> {
  const res = await fetch(`${process.env.CRM_BASE_URL}/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      client_id: process.env.CRM_CLIENT_ID ?? '',
      client_secret: process.env.CRM_CLIENT_SECRET ?? '',
    }),
    signal: AbortSignal.timeout(REFRESH_TIMEOUT_MS),
  });
  if (!res.ok) throw new Error(`token endpoint answered ${res.status}`);
  const body = (await res.json()) as { access_token: string; refresh_token: string; expires_in: number };
  return {
    accessToken: body.access_token,
    refreshToken: body.refresh_token,
    expiresAt: Date.now() + body.expires_in * 1000,
  };
}

/**
 * Returns a usable access token. The CRM rotates refresh tokens, so only one
 * process may exchange a given one; the others wait for its result.
 */
export async function getAccessToken(connectionId: string): Promise<string> {
  const giveUpAt = Date.now() + 20_000;

  for (;;) {
    // Nearly every call ends here without touching the lock.
    const cached = await readToken(connectionId);
    if (isFresh(cached)) return cached.accessToken;

    const owner = randomUUID();
    const won = await redis.set(lockKey(connectionId), owner, 'PX', LOCK_TTL_MS, 'NX');
    if (won === 'OK') {
      try {
        // Somebody may have refreshed between our read and the lock.
        const current = await readToken(connectionId);
        if (isFresh(current)) return current.accessToken;

        const next = await requestToken(current.refreshToken);
        const saved = await redis.eval(
          SAVE_IF_OWNER, 2, lockKey(connectionId), tokenKey(connectionId), owner, JSON.stringify(next),
        );
        if (saved !== 1) throw new Error(`refresh of ${connectionId} took longer than its lock`);
        return next.accessToken;
      } finally {
        await redis.eval(RELEASE, 1, lockKey(connectionId), owner).catch((err: Error) => {
          console.warn('refresh lock left to expire', connectionId, err.message);
        });
      }
    }

    if (Date.now() > giveUpAt) throw new Error(`timed out waiting for a token for ${connectionId}`);
    await sleep(200 + Math.random() * 200);
  }
}
