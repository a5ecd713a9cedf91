import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Request, Response, NextFunction } from 'express';
import { createClient } from 'redis';
import type { Client as SearchClient } from '@opensearch-project/opensearch';
import type { Pool } from 'pg';

type RedisClient = ReturnType<typeof createClient>;

const LEASE_MS = 60_000;

interface ReindexLock {
  key: string;
  infoKey: string;
  token: string;
}

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1], KEYS[2])
end
return 0`;

/**
 * Takes the lock of a tenant and notes who took it, for the admin page. Both go in
 * one transaction, so there is never a lock without its note.
 */
export async function lockTenant(redis: RedisClient, tenantId: string, user: string): Promise<ReindexLock | null> {
  const lock: ReindexLock = {
    key: `{reindex:${tenantId}}:lock`,
    infoKey: `{reindex:${tenantId}}:info`,
    token: randomUUID(),
  };
  const replies = await redis
    .multi()
    .set(lock.key, lock.token, { NX: true, PX: LEASE_MS })
    .hSet(lock.infoKey, { host: hostname(), user, since: new Date().toISOString() })
    .pExpire(lock.infoKey, LEASE_MS)
    .exec();
  if (!replies || replies.length !== 3) {
    return null;
  }
  return lock;
}

export async function extendTenant(redis: RedisClient, lock: ReindexLock): Promise<boolean> {
  const n = await redis.eval(EXTEND, { keys: [lock.key, lock.infoKey], arguments: [lock.token, String(LEASE_MS)] });
  return n === 1;
}

export async function unlockTenant(redis: RedisClient, lock: ReindexLock): Promise<void> {
  await redis.eval(RELEASE, { keys: [lock.key, lock.infoKey], arguments: [lock.token] });
}

export function reindexHandler(deps: { redis: RedisClient; pool: Pool; search: SearchClient }) {
  const { redis, pool, search } = deps;

  async function reindex(tenantId: string, lock: ReindexLock) {
    const index = `docs-${tenantId}-${Date.now()}`;
    await search.indices.create({ index });
    let after = 0;
    let total = 0;
    for (;;) {
      const { rows } = await pool.query(
        'SELECT id, title, body FROM documents WHERE tenant_id = $1 AND id > $2 ORDER BY id LIMIT 500',
        [tenantId, after],
      );
      if (rows.length === 0) break;
      await search.bulk({
        body: rows.flatMap((r) => [{ index: { _index: index, _id: String(r.id) } }, { title: r.title, body: r.body }]),
      });
      after = rows[rows.length - 1].id;
      total += rows.length;
      if (!(await extendTenant(redis, lock))) throw new Error(`lock of tenant ${tenantId} was lost`);
    }
    await search.indices.updateAliases({
      body: {
        actions: [
          { remove: { index: `docs-${tenantId}-*`, alias: `docs-${tenantId}` } },
          { add: { index, alias: `docs-${tenantId}` } },
        ],
      },
    });
    return { index, total };
  }

  return async (req: Request, res: Response, next: NextFunction) => {
    const { tenantId } = req.params;
    let lock: ReindexLock | null = null;
    try {
      lock = await lockTenant(redis, tenantId, req.get('x-user') ?? 'unknown');
      if (!lock) {
        res.status(409).json({ error: 'reindex is already running' });
        return;
      }
      res.json(await reindex(tenantId, lock));
    } catch (err) {
      next(err);
    } finally {
      if (lock) await unlockTenant(redis, lock).catch((err) => console.warn('reindex unlock', err));
    }
  };
}
