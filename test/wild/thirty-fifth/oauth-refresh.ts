import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";

const RELEASE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`;
const RENEW = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`;

export class LockBusyError extends Error {}
export class LockLostError extends Error {}

export interface ExclusiveOptions {
  ttlMs: number;
  waitMs: number;
}

/** Turns `fn` into a function that runs in at most one process per key. */
export function exclusively<A extends unknown[], R>(
  redis: Redis,
  keyFor: (...args: A) => string,
  { ttlMs, waitMs }: ExclusiveOptions,
  fn: (signal: AbortSignal, ...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  return async (...args: A): Promise<R> => {
    const key = keyFor(...args);
    const token = randomUUID();
    const giveUpAt = performance.now() + waitMs;
    let sentAt = performance.now();
    while ((await redis.set(key, token, "PX", ttlMs, "NX")) !== "OK") {
      if (performance.now() >= giveUpAt) throw new LockBusyError(key);
      await sleep(100 + Math.random() * 100);
      sentAt = performance.now();
    }

    const lost = new AbortController();
    let done = false;
    let expiry: NodeJS.Timeout | undefined;
    // The lease counts from the moment the command was sent, with 20% kept in reserve.
    const armExpiry = (from: number) => {
      clearTimeout(expiry);
      expiry = setTimeout(() => lost.abort(new LockLostError(key)), from + ttlMs * 0.8 - performance.now());
    };
    armExpiry(sentAt);

    const renewal = setInterval(async () => {
      const at = performance.now();
      try {
        const kept = await redis.eval(RENEW, 1, key, token, ttlMs);
        if (kept !== 1) lost.abort(new LockLostError(key));
        else if (!done) armExpiry(at);
      } catch (err) {
        // The next tick tries again; if none gets through, the expiry timer stops the work.
        console.warn(`could not renew ${key}`, err);
      }
    }, ttlMs / 4);

    try {
      return await fn(lost.signal, ...args);
    } finally {
      done = true;
      clearInterval(renewal);
      clearTimeout(expiry);
      await redis.eval(RELEASE, 1, key, token).catch((err) => console.warn(`could not release ${key}`, err));
    }
  };
}

export interface AccessToken {
  value: string;
  expiresAt: number;
}

export interface TokenVault {
  read(partner: string, opts?: { signal?: AbortSignal }): Promise<AccessToken | null>;
  write(partner: string, token: AccessToken, opts: { signal: AbortSignal }): Promise<void>;
}

export interface PartnerClient {
  tokenUrl: string;
  clientId: string;
  clientSecret: string;
}

const isFresh = (t: AccessToken | null): t is AccessToken => t !== null && t.expiresAt - Date.now() > 60_000;

export function createTokenSource(redis: Redis, vault: TokenVault, clients: Map<string, PartnerClient>) {
  const refresh = exclusively(
    redis,
    (partner: string) => `oauth:refresh:${partner}`,
    { ttlMs: 15_000, waitMs: 12_000 },
    async (signal, partner: string): Promise<AccessToken> => {
      const current = await vault.read(partner, { signal });
      if (isFresh(current)) return current;

      const client = clients.get(partner);
      if (!client) throw new Error(`unknown partner ${partner}`);
      const requestedAt = Date.now();
      const res = await fetch(client.tokenUrl, {
        method: "POST",
        body: new URLSearchParams({
          grant_type: "client_credentials",
          client_id: client.clientId,
          client_secret: client.clientSecret,
        }),
        signal: AbortSignal.any([signal, AbortSignal.timeout(8_000)]),
      });
      if (!res.ok) throw new Error(`token endpoint of ${partner} answered ${res.status}`);
      const body = (await res.json()) as { access_token: string; expires_in: number };
      const fresh = { value: body.access_token, expiresAt: requestedAt + body.expires_in * 1000 };
      signal.throwIfAborted();
      await vault.write(partner, fresh, { signal });
      return fresh;
    },
  );

  return async function accessToken(partner: string): Promise<string> {
    const known = await vault.read(partner);
    return (isFresh(known) ? known : await refresh(partner)).value;
  };
}
