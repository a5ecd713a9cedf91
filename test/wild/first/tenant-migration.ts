import { randomUUID } from 'node:crypto';
import Valkey from 'iovalkey';

const TTL = 20_000;
const RESERVE = 500;

const valkey = new Valkey({
  host: process.env.VALKEY_HOST ?? 'localhost',
  port: Number(process.env.VALKEY_PORT ?? 6379),
  commandTimeout: 1_500,
  maxRetriesPerRequest: 2,
});
valkey.on('error', () => {});

valkey.defineCommand('unlockIfMine', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('del', KEYS[1])
  `,
});

const unlockIfMine = (key: string, token: string): Promise<number> => (valkey as any).unlockIfMine(key, token);

export interface TenantLease extends AsyncDisposable {
  /** Aborts while the key is still there. */
  readonly signal: AbortSignal;
}

export async function leaseTenant(tenantId: string): Promise<TenantLease> {
  const key = `tenant:${tenantId}:migration`;
  const token = randomUUID();
  const start = performance.now();
  let ok: 'OK' | null = null;
  try {
    ok = await valkey.set(key, token, 'PX', TTL, 'NX');
  } catch (error) {
    void unlockIfMine(key, token).catch(() => {});
    throw error;
  }
  if (ok !== 'OK') throw new Error(`tenant ${tenantId} is being migrated`);

  const left = TTL - RESERVE - (performance.now() - start);
  if (left <= 0) {
    await unlockIfMine(key, token);
    throw new Error(`no lease of tenant ${tenantId} in time`);
  }
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new Error('lease is over')), left);

  return {
    signal: controller.signal,
    async [Symbol.asyncDispose]() {
      clearTimeout(timer);
      await unlockIfMine(key, token);
    },
  };
}

/** Moves a tenant step by step; each step takes well under a second, and none is begun after the lease. */
export async function migrateTenant(tenantId: string, steps: Array<(signal: AbortSignal) => Promise<void>>) {
  await using lease = await leaseTenant(tenantId);
  for (const step of steps) {
    lease.signal.throwIfAborted();
    await step(lease.signal);
  }
}
