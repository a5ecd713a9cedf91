import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';

export interface CrmCredentials {
  accessToken: string;
  refreshToken: string;
  expiresAt: number;
}

export interface CredentialVault {
  load(workspaceId: string): Promise<CrmCredentials>;
  save(workspaceId: string, credentials: CrmCredentials): Promise<void>;
}

export interface CrmTokenConfig {
  tokenUrl: string;
  clientId: string;
  clientSecret: string;
  lockTtl: number;
}

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

const EARLY_MS = 60_000;
const WAIT_MS = 20_000;

export function configFromEnv(env = process.env): CrmTokenConfig {
  return {
    tokenUrl: env.CRM_TOKEN_URL ?? 'https://login.crm.example.com/oauth/token',
    clientId: env.CRM_CLIENT_ID ?? '',
    clientSecret: env.CRM_CLIENT_SECRET ?? '',
    lockTtl: Number(env.CRM_TOKEN_LOCK_TTL_SECONDS ?? 30),
  };
}

/**
 * Hands out a workspace's access token for the CRM. The CRM rotates refresh tokens: each works once,
 * and using an old one again revokes the workspace's grant. Hence one refresh at a time.
 */
export class CrmAccessTokens {
  constructor(
    private readonly vault: CredentialVault,
    private readonly config: CrmTokenConfig = configFromEnv(),
    private readonly redis: Redis = Redis.fromEnv(),
  ) {}

  async get(workspaceId: string): Promise<string> {
    const stored = await this.vault.load(workspaceId);
    if (isFresh(stored)) {
      return stored.accessToken;
    }

    const lockKey = `crm:refresh:${workspaceId}`;
    const giveUpAt = performance.now() + WAIT_MS;

    while (performance.now() < giveUpAt) {
      const owner = randomUUID();
      const acquired = await this.redis.set(lockKey, owner, { nx: true, px: this.config.lockTtl });

      if (acquired === 'OK') {
        try {
          return await this.refreshIfNeeded(workspaceId);
        } finally {
          await this.release(lockKey, owner);
        }
      }

      await sleep(150 + Math.random() * 150);
      const current = await this.vault.load(workspaceId);
      if (isFresh(current)) {
        return current.accessToken;
      }
    }

    throw new Error(`CRM token of ${workspaceId} was not refreshed within ${WAIT_MS} ms`);
  }

  private async refreshIfNeeded(workspaceId: string): Promise<string> {
    // someone may have been faster while we were getting the lock
    const current = await this.vault.load(workspaceId);
    if (isFresh(current)) {
      return current.accessToken;
    }

    const res = await fetch(this.config.tokenUrl, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        refresh_token: current.refreshToken,
        client_id: this.config.clientId,
        client_secret: this.config.clientSecret,
      }),
      signal: AbortSignal.timeout(10_000),
    });
    if (!res.ok) {
      throw new Error(`CRM token endpoint answered ${res.status}`);
    }
    const body = (await res.json()) as { access_token: string; refresh_token: string; expires_in: number };

    const next: CrmCredentials = {
      accessToken: body.access_token,
      refreshToken: body.refresh_token,
      expiresAt: Date.now() + body.expires_in * 1000,
    };
    await this.vault.save(workspaceId, next);
    return next.accessToken;
  }

  private async release(lockKey: string, owner: string): Promise<void> {
    try {
      await this.redis.eval(RELEASE, [lockKey], [owner]);
    } catch (err) {
      console.warn('crm refresh lock not released', { lockKey, err });
    }
  }
}

function isFresh(credentials: CrmCredentials): boolean {
  return credentials.expiresAt - Date.now() > EARLY_MS;
}
