import Redis from 'ioredis';
import { Pool } from 'pg';
import { nanoid } from 'nanoid';
import { setTimeout as delay } from 'node:timers/promises';
import { climateReport } from '../climate/client';
import { logger } from '../logger';

const LEASE_MS = 25_000;

// Hands out the lease and its number in one go. The number follows the server clock so that it
// keeps growing when the instance comes back empty.
const ACQUIRE = `
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return nil
end
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
local fence = string.format('%.0f', math.max(now, last + 1))
redis.call('SET', KEYS[2], fence)
return fence`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

interface Lease {
  key: string;
  token: string;
  fence: string;
}

export class ArtifactRelocator {
  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
  ) {}

  private async acquire(artifactId: string, waitMs = 4_000): Promise<Lease | null> {
    const key = `{artifact:${artifactId}}:lease`;
    const token = nanoid(24);
    const until = Date.now() + waitMs;
    do {
      const fence = (await this.redis.eval(
        ACQUIRE, 2, key, `{artifact:${artifactId}}:fence`, token, LEASE_MS,
      )) as string | null;
      if (fence !== null) return { key, token, fence };
      await delay(150 + Math.random() * 200);
    } while (Date.now() < until);
    return null;
  }

  private async release(lease: Lease): Promise<void> {
    try {
      await this.redis.eval(RELEASE, 1, lease.key, lease.token);
    } catch (err) {
      logger.warn({ err, key: lease.key }, 'artifact lease left to expire');
    }
  }

  async relocate(artifactId: string, galleryId: string, curator: string): Promise<'moved' | 'busy' | 'stale'> {
    const lease = await this.acquire(artifactId);
    if (!lease) return 'busy';
    try {
      const climate = await climateReport(galleryId, { timeoutMs: 8_000 });
      if (climate.relativeHumidity > 55) {
        throw new Error(`gallery ${galleryId} is too humid for ${artifactId}`);
      }
      return await this.write(artifactId, galleryId, curator, lease.fence);
    } finally {
      await this.release(lease);
    }
  }

  private async write(artifactId: string, galleryId: string, curator: string, fence: string) {
    const client = await this.pool.connect();
    try {
      await client.query('BEGIN');
      const res = await client.query(
        `UPDATE artifacts SET gallery_id = $2, moved_at = now(), last_fence = $3
          WHERE id = $1 AND last_fence < $3::bigint`,
        [artifactId, galleryId, fence],
      );
      if (res.rowCount === 0) {
        await client.query('ROLLBACK');
        return 'stale' as const;
      }
      await client.query(
        'INSERT INTO artifact_movements (artifact_id, gallery_id, curator, fence) VALUES ($1, $2, $3, $4)',
        [artifactId, galleryId, curator, fence],
      );
      await client.query('COMMIT');
      return 'moved' as const;
    } catch (err) {
      await client.query('ROLLBACK').catch(() => undefined);
      throw err;
    } finally {
      client.release();
    }
  }
}
