import { createClient } from 'redis';
import { randomUUID } from 'crypto';
import type { Pool } from 'pg';

type RedisClient = ReturnType<typeof createClient>;

const LOCK = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  redis.call('INCR', KEYS[2])
  return 1
end
return 0`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`;

export class FreightManifest {
  constructor(private readonly redis: RedisClient, private readonly pg: Pool) {}

  async revise(container: string, edit: (manifest: unknown) => Promise<unknown>): Promise<'ok' | 'locked' | 'stale'> {
    const keys = [`freight:{${container}}:lock`, `freight:{${container}}:fence`];
    const token = randomUUID();

    const locked = await this.redis.eval(LOCK, { keys, arguments: [token, '20000'] });
    if (locked !== 1) return 'locked';

    try {
      const fence = Number(await this.redis.get(keys[1]));
      // shuts out whoever comes with an older fence, then reads
      const { rows } = await this.pg.query(
        'update containers set fence = $2 where id = $1 and fence <= $2 returning manifest',
        [container, fence],
      );
      if (rows.length === 0) return 'stale';
      const revised = await edit(rows[0].manifest);

      const res = await this.pg.query(
        'update containers set manifest = $2 where id = $1 and fence = $3',
        [container, JSON.stringify(revised), fence],
      );
      return res.rowCount === 1 ? 'ok' : 'stale';
    } finally {
      await this.redis.eval(UNLOCK, { keys: [keys[0]], arguments: [token] });
    }
  }
}
