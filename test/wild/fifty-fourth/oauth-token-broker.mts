import { createClient } from 'redis';
import { fetch } from 'undici';
import { nanoid } from 'nanoid';
import pino from 'pino';
import { z } from 'zod';
import { setTimeout as sleep } from 'node:timers/promises';

const log = pino({ name: 'token-broker' });
const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => log.error({ err }, 'redis'));
await redis.connect();

const LOCK_TTL_MS = 30_000;
const EXCHANGE_TIMEOUT_MS = 8_000;
const WAIT_MS = 12_000;
const EARLY_MS = 60_000;

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`;

const Answer = z.object({
  access_token: z.string(),
  refresh_token: z.string(),
  expires_in: z.number().positive(),
});

interface Grant {
  accessToken: string;
  refreshToken: string;
  expiresAt: number;
}

const grantKey = (tenant: string) => `ledgerlink:grant:${tenant}`;
const lockKey = (tenant: string) => `ledgerlink:grant-lock:${tenant}`;

async function readGrant(tenant: string): Promise<Grant | null> {
  const raw = await redis.get(grantKey(tenant));
  return raw ? (JSON.parse(raw) as Grant) : null;
}

function isFresh(grant: Grant | null): grant is Grant {
  return grant !== null && grant.expiresAt - EARLY_MS > Date.now();
}

// The provider rotates refresh tokens: presenting a used one revokes the whole
// connection and the customer has to log in to their bank again.
async function exchange(refreshToken: string): Promise<Grant> {
  const res = await fetch(process.env.LEDGERLINK_TOKEN_URL!, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: refreshToken,
      client_id: process.env.LEDGERLINK_CLIENT_ID!,
      client_secret: process.env.LEDGERLINK_CLIENT_SECRET!,
    }).toString(),
    signal: AbortSignal.timeout(EXCHANGE_TIMEOUT_MS),
  });
  if (!res.ok) throw new Error(`token endpoint answered ${res.status}`);
  const body = Answer.parse(await res.json());
  return {
    accessToken: body.access_token,
    refreshToken: body.refresh_token,
    expiresAt: Date.now() + body.expires_in * 1000,
  };
}

export async function accessTokenFor(tenant: string): Promise<string> {
  const cached = await readGrant(tenant);
  if (isFresh(cached)) return cached.accessToken;

  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const owner = nanoid();
    const reply = await redis.set(lockKey(tenant), owner, { NX: true, PX: LOCK_TTL_MS });
    if (reply === 'OK') {
      try {
        const latest = await readGrant(tenant);
        if (isFresh(latest)) return latest.accessToken;
        if (!latest) throw new Error(`tenant ${tenant} has never connected`);
        const renewed = await exchange(latest.refreshToken);
        await redis.set(grantKey(tenant), JSON.stringify(renewed));
        log.info({ tenant, expiresAt: renewed.expiresAt }, 'grant renewed');
        return renewed.accessToken;
      } finally {
        await redis
          .eval(RELEASE, { keys: [lockKey(tenant)], arguments: [owner] })
          .catch((err) => log.warn({ err, tenant }, 'release'));
      }
    }

    if (Date.now() >= deadline) throw new Error(`no token for ${tenant} within ${WAIT_MS} ms`);
    await sleep(150 + Math.random() * 150);
    const current = await readGrant(tenant);
    if (isFresh(current)) return current.accessToken;
  }
}
