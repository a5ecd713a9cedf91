import crypto from 'node:crypto';
import Redis from 'ioredis';
import type { Knex } from 'knex';

// two per data center
const LOCK_HOSTS = ['lock-fra-1', 'lock-fra-2', 'lock-ams-1', 'lock-ams-2'];

const servers = LOCK_HOSTS.map((host) => {
  const r = new Redis({
    host,
    port: 6379,
    commandTimeout: 100,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
  });
  r.on('error', (e) => console.warn(`${host}: ${e.message}`));
  return r;
});

const NEEDED = Math.ceil(servers.length / 2);

const unlockLua = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function unlockAll(key: string, token: string): Promise<void> {
  await Promise.allSettled(servers.map((s) => s.eval(unlockLua, 1, key, token)));
}

async function tryLock(key: string, ttl: number): Promise<{ token: string; validUntil: number } | null> {
  const token = crypto.randomBytes(16).toString('base64url');
  const begin = performance.now();
  const results = await Promise.allSettled(servers.map((s) => s.set(key, token, 'PX', ttl, 'NX')));
  const granted = results.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
  const validUntil = begin + ttl - (ttl * 0.01 + 2);

  if (granted >= NEEDED && performance.now() < validUntil) {
    return { token, validUntil };
  }
  await unlockAll(key, token);
  return null;
}

export async function lockTenant<T>(
  slug: string,
  fn: (check: () => void) => Promise<T>,
  ttl = 30_000,
  maxWait = 8_000,
): Promise<T> {
  const key = `tenant:${slug}`;
  const stopAt = performance.now() + maxWait;
  let lock = await tryLock(key, ttl);
  while (!lock) {
    if (performance.now() > stopAt) throw new Error(`tenant ${slug} is being provisioned elsewhere`);
    await new Promise((r) => setTimeout(r, 150 + Math.random() * 250));
    lock = await tryLock(key, ttl);
  }

  const { token, validUntil } = lock;
  const check = () => {
    if (performance.now() > validUntil - 5_000) throw new Error(`lock on tenant ${slug} is running out`);
  };
  try {
    return await fn(check);
  } finally {
    await unlockAll(key, token);
  }
}

export async function provisionTenant(knex: Knex, slug: string, plan: string) {
  return lockTenant(slug, async (check) => {
    const known = await knex('tenants').where({ slug }).first('id').timeout(3_000);
    if (known) return known.id as number;

    return knex.transaction(async (trx) => {
      const [row] = await trx('tenants').insert({ slug, plan, state: 'new' }).returning('id').timeout(3_000);
      await trx('tenant_quota').insert({ tenant_id: row.id, seats: plan === 'team' ? 25 : 5 }).timeout(3_000);
      check();
      return row.id as number;
    });
  });
}
