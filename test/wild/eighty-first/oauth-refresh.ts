import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type Result } from 'ioredis';
import { Pool } from 'pg';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    releaseIfOwner(key: string, token: string): Result<number, Context>;
  }
}

const redis = new Redis(process.env.REDIS_URL!, {
  scripts: {
    releaseIfOwner: {
      numberOfKeys: 1,
      lua: `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('del', KEYS[1])`,
    },
  },
});
const pool = new Pool({ connectionTimeoutMillis: 3_000, statement_timeout: 5_000, query_timeout: 6_000 });

interface Grant {
  access_token: string;
  refresh_token: string;
  expires_at: Date;
  version: number;
}

async function withLock<T>(name: string, ttlMs: number, waitMs: number, fn: () => Promise<T>): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();
  const giveUp = Date.now() + waitMs;
  while ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') {
    if (Date.now() > giveUp) throw new Error(`timed out waiting for ${key}`);
    await sleep(80 + Math.random() * 120);
  }
  try {
    return await fn();
  } finally {
    await redis.releaseIfOwner(key, token).catch(() => 0);
  }
}

async function load(id: string): Promise<Grant> {
  const { rows } = await pool.query<Grant>(
    'SELECT access_token, refresh_token, expires_at, version FROM grants WHERE id = $1',
    [id],
  );
  if (!rows[0]) throw new Error(`no grant ${id}`);
  return rows[0];
}

const fresh = (grant: Grant) => grant.expires_at.getTime() - Date.now() > 60_000;

/** The provider rotates refresh tokens, so each may be spent once only. */
export async function accessToken(id: string): Promise<string> {
  const seen = await load(id);
  if (fresh(seen)) return seen.access_token;

  return withLock(`oauth:${id}`, 90_000, 30_000, async () => {
    const grant = await load(id);
    if (fresh(grant)) return grant.access_token;

    const res = await fetch(process.env.TOKEN_URL!, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        refresh_token: grant.refresh_token,
        client_id: process.env.CLIENT_ID!,
        client_secret: process.env.CLIENT_SECRET!,
      }),
      signal: AbortSignal.timeout(10_000),
    });
    if (!res.ok) throw new Error(`token endpoint answered ${res.status}`);
    const body = (await res.json()) as { access_token: string; refresh_token: string; expires_in: number };

    const saved = await pool.query(
      `UPDATE grants
          SET access_token = $3, refresh_token = $4, expires_at = now() + make_interval(secs => $5), version = version + 1
        WHERE id = $1 AND version = $2`,
      [id, grant.version, body.access_token, body.refresh_token, body.expires_in],
    );
    if (saved.rowCount !== 1) throw new Error(`grant ${id} changed meanwhile`);
    return body.access_token;
  });
}
