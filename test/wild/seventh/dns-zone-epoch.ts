import { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';

/** KEYS lock, epoch   ARGV token, lockMs, epochSeconds */
const TAKE = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local epoch = redis.call('INCR', KEYS[2])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return epoch`;

const GIVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export interface ZoneStore {
  /** registers the epoch, refuses one lower than the highest seen */
  read(zone: string, epoch: number): Promise<{ serial: number; records: string[] }>;
  /** atomic in the name server's database: refuses an epoch lower than the highest seen, for good */
  write(zone: string, epoch: number, z: { serial: number; records: string[] }): Promise<boolean>;
}

export class ZoneEditor {
  constructor(private readonly redis: Redis, private readonly store: ZoneStore) {}

  async edit(zone: string, fn: (records: string[]) => Promise<string[]>): Promise<void> {
    const lock = `dns:{${zone}}:lock`;
    const token = randomUUID();
    // zones come and go, so the counters are swept after ten minutes without an edit
    const epoch = Number(await this.redis.eval(TAKE, 2, lock, `dns:{${zone}}:epoch`, token, 30_000, 600));
    if (epoch === 0) throw new Error(`${zone} is being edited`);
    try {
      const z = await this.store.read(zone, epoch);
      const records = await fn(z.records);
      if (!(await this.store.write(zone, epoch, { serial: z.serial + 1, records }))) {
        throw new Error(`${zone}: edit came too late`);
      }
    } finally {
      await this.redis.eval(GIVE, 1, lock, token);
    }
  }
}
