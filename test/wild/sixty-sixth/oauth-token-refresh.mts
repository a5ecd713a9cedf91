import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';

interface RefreshConfig {
  tokenUrl: string;
  clientId: string;
  clientSecret: string;
  httpTimeout: number;
  lockTtl: number;
  waitForOther: number;
  earlyRefresh: number;
}

// All durations in seconds.
const config: RefreshConfig = {
  tokenUrl: process.env.CRM_TOKEN_URL ?? 'https://login.crm.example/oauth/token',
  clientId: process.env.CRM_CLIENT_ID ?? '',
  clientSecret: process.env.CRM_CLIENT_SECRET ?? '',
  httpTimeout: Number(process.env.CRM_HTTP_TIMEOUT ?? 10),
  lockTtl: Number(process.env.CRM_REFRESH_LOCK_TTL ?? 30),
  waitForOther: Number(process.env.CRM_REFRESH_WAIT ?? 15),
  earlyRefresh: 60,
};

interface StoredToken {
  accessToken: string;
  refreshToken: string;
  /** unix seconds */
  expiresAt: number;
}

export interface TokenEvent {
  connectionId: string;
}

const redis = Redis.fromEnv();

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

const tokenKey = (id: string) => `crm:token:${id}`;
const lockKey = (id: string) => `crm:token-refresh:${id}`;

function isFresh(token: StoredToken | null): token is StoredToken {
  return token !== null && token.expiresAt - config.earlyRefresh > Date.now() / 1000;
}

async function requestToken(refreshToken: string): Promise<StoredToken> {
  const res = await fetch(config.tokenUrl, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      client_id: config.clientId,
      client_secret: config.clientSecret,
    }),
    signal: AbortSignal.timeout(config.httpTimeout * 1000),
  });
  if (!res.ok) {
    throw new Error(`token endpoint answered ${res.status}`);
  }
  const body = (await res.json()) as { access_token: string; refresh_token: string; expires_in: number };
  return {
    accessToken: body.access_token,
    refreshToken: body.refresh_token,
    expiresAt: Math.floor(Date.now() / 1000) + body.expires_in,
  };
}

/**
 * The CRM rotates refresh tokens and revokes the whole connection if an old one is
 * presented again, so one refresh at a time for each connection.
 */
export async function accessTokenFor(connectionId: string): Promise<string> {
  const cached = await redis.get<StoredToken>(tokenKey(connectionId));
  if (isFresh(cached)) {
    return cached.accessToken;
  }

  const owner = randomUUID();
  const giveUpAt = Date.now() + config.waitForOther * 1000;
  while ((await redis.set(lockKey(connectionId), owner, { nx: true, px: config.lockTtl })) !== 'OK') {
    if (Date.now() > giveUpAt) {
      throw new Error(`refresh of connection ${connectionId} takes too long`);
    }
    await sleep(250);
    const other = await redis.get<StoredToken>(tokenKey(connectionId));
    if (isFresh(other)) {
      return other.accessToken;
    }
  }

  try {
    // somebody may have been faster between our first look and the lock
    const current = await redis.get<StoredToken>(tokenKey(connectionId));
    if (isFresh(current)) {
      return current.accessToken;
    }
    if (!current) {
      throw new Error(`connection ${connectionId} was never authorised`);
    }
    const renewed = await requestToken(current.refreshToken);
    await redis.set(tokenKey(connectionId), renewed);
    console.log(JSON.stringify({ msg: 'crm token refreshed', connectionId, expiresAt: renewed.expiresAt }));
    return renewed.accessToken;
  } finally {
    try {
      await redis.eval(RELEASE, [lockKey(connectionId)], [owner]);
    } catch (err) {
      console.warn(JSON.stringify({ msg: 'refresh lock not released', connectionId, err: String(err) }));
    }
  }
}

/** Scheduled warm-up; the payload comes from EventBridge. */
export async function handler(event: { detail: TokenEvent[] }): Promise<{ refreshed: number; failed: string[] }> {
  const failed: string[] = [];
  for (const { connectionId } of event.detail) {
    try {
      await accessTokenFor(connectionId);
    } catch (err) {
      console.error(JSON.stringify({ msg: 'warm-up failed', connectionId, err: String(err) }));
      failed.push(connectionId);
    }
  }
  return { refreshed: event.detail.length - failed.length, failed };
}
