import Redis from 'ioredis';
import { Pool } from 'pg';
import { ulid } from 'ulid';
import pino from 'pino';

const log = pino({ name: 'tariff-leader' });

const LIBRARY = `#!lua name=tarifflease
redis.register_function('lease_take', function(keys, args)
  if redis.call('SET', keys[1], args[1], 'NX', 'PX', args[2]) then
    return redis.call('INCR', keys[2])
  end
  return 0
end)
redis.register_function('lease_keep', function(keys, args)
  if redis.call('GET', keys[1]) == args[1] then
    return redis.call('PEXPIRE', keys[1], args[2])
  end
  return 0
end)
redis.register_function('lease_drop', function(keys, args)
  if redis.call('GET', keys[1]) == args[1] then
    return redis.call('DEL', keys[1])
  end
  return 0
end)
`;

const LEASE = '{tariff}:leader';
const EPOCH = '{tariff}:epoch'; // persisted, appendfsync always on this instance

export interface TariffSource {
  current(area: string): Promise<unknown>;
}

export class TariffLeader {
  private token = '';
  private epoch = 0;
  private stopped = false;
  private loop: Promise<void> | null = null;

  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
    private readonly source: TariffSource,
    private readonly areas: string[],
    private readonly ttlMs = 15_000,
    private readonly everyMs = 4_000,
  ) {}

  async start(): Promise<void> {
    await this.redis.call('FUNCTION', 'LOAD', 'REPLACE', LIBRARY);
    this.loop = this.run();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    await this.loop;
    if (this.epoch > 0) await this.redis.call('FCALL', 'lease_drop', 1, LEASE, this.token);
    this.epoch = 0;
  }

  private async run(): Promise<void> {
    while (!this.stopped) {
      try {
        if (await this.leading()) await this.publish(this.epoch);
      } catch (err) {
        log.error({ err }, 'tick failed');
      }
      await new Promise((r) => setTimeout(r, this.everyMs));
    }
  }

  private async leading(): Promise<boolean> {
    if (this.epoch > 0) {
      const kept = await this.redis.call('FCALL', 'lease_keep', 1, LEASE, this.token, this.ttlMs);
      if (kept === 1) return true;
      log.warn({ epoch: this.epoch }, 'stepping down');
      this.epoch = 0;
    }
    const token = ulid();
    const epoch = Number(await this.redis.call('FCALL', 'lease_take', 2, LEASE, EPOCH, token, this.ttlMs));
    if (epoch === 0) return false;
    this.token = token;
    this.epoch = epoch;
    log.info({ epoch }, 'leading');
    return true;
  }

  // A slow upstream can hold us here for longer than the lease lives. The board
  // remembers the highest epoch it has seen and turns away anything older.
  private async publish(epoch: number): Promise<void> {
    for (const area of this.areas) {
      const tariff = await this.source.current(area);
      const { rowCount } = await this.pool.query(
        `update tariff_board
            set payload = $2, leader_epoch = $3, published_at = now()
          where area = $1 and leader_epoch <= $3`,
        [area, JSON.stringify(tariff), epoch],
      );
      if (rowCount === 0) {
        log.warn({ area, epoch }, 'board refused an old epoch');
        this.epoch = 0;
        return;
      }
    }
  }
}
