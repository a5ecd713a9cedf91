import Redis, { type Result } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    unlock(key: string, token: string): Result<number, Context>;
  }
}

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

redis.defineCommand('unlock', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('del', KEYS[1])
    end
    return 0
  `,
});

// every statement is bounded, six of them fit well into LOCK_MS
const db = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 1_000,
  statement_timeout: 2_000,
  query_timeout: 2_500,
});

const LOCK_MS = 20_000;
const WAIT_MS = 3_000;

export class LockBusyError extends Error {}

async function withLock<T>(name: string, fn: () => Promise<T>): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();
  const giveUpAt = Date.now() + WAIT_MS;

  while ((await redis.set(key, token, 'PX', LOCK_MS, 'NX')) !== 'OK') {
    if (Date.now() >= giveUpAt) throw new LockBusyError(`${name} is busy`);
    await sleep(40 + Math.random() * 80);
  }

  try {
    return await fn();
  } finally {
    await redis.unlock(key, token).catch((err) => {
      console.warn(`could not release ${key}, it will expire`, err);
    });
  }
}

export interface ChestResult {
  opened: boolean;
  goldPerMember?: number;
}

export function openGuildChest(guildId: string, chestId: string, playerId: string): Promise<ChestResult> {
  return withLock(`guild:${guildId}:chest:${chestId}`, async () => {
    const client = await db.connect();
    let failed = true;
    try {
      await client.query('BEGIN');

      const chest = await client.query(
        `SELECT c.gold, c.opened_at, (SELECT count(*)::int FROM players p WHERE p.guild_id = c.guild_id) AS members
           FROM guild_chests c WHERE c.id = $1 AND c.guild_id = $2`,
        [chestId, guildId],
      );
      const row = chest.rows[0];
      if (!row || row.opened_at || row.members === 0) {
        await client.query('ROLLBACK');
        failed = false;
        return { opened: false };
      }

      const share = Math.floor(row.gold / row.members);
      const marked = await client.query(
        'UPDATE guild_chests SET opened_at = now(), opened_by = $2 WHERE id = $1 AND opened_at IS NULL',
        [chestId, playerId],
      );
      if (marked.rowCount !== 1) {
        await client.query('ROLLBACK');
        failed = false;
        return { opened: false };
      }
      await client.query('UPDATE players SET gold = gold + $1 WHERE guild_id = $2', [share, guildId]);
      await client.query('COMMIT');
      failed = false;
      return { opened: true, goldPerMember: share };
    } finally {
      // a broken connection is thrown away, which rolls back as well
      client.release(failed);
    }
  });
}
