import { createClient } from 'redis';
import { Pool } from 'pg';
import pino from 'pino';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const log = pino({ name: 'telemetry-rollup' });
const pool = new Pool({ statement_timeout: 20_000 });

const TTL_MS = 15_000;
const MARGIN_MS = 1_500;
const LEADER_KEY = '{rollup}:leader';
const EPOCH_KEY = '{rollup}:epoch';

// epoch is never lower than the clock, so it keeps growing if the key is evicted
const ELECT = `
if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
local t = redis.call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local prev = tonumber(redis.call('get', KEYS[2]) or '0')
local epoch = math.max(prev + 1, now)
redis.call('set', KEYS[2], string.format('%.0f', epoch))
return epoch`;
const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RESIGN = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

type Duty = (epoch: number, signal: AbortSignal) => Promise<void>;

export class LeaderLoop {
  private stopping = false;
  private term: AbortController | null = null;
  private readonly redis: ReturnType<typeof createClient>;

  constructor(redis: ReturnType<typeof createClient>) {
    this.redis = redis;
  }

  async run(duty: Duty) {
    while (!this.stopping) {
      const token = randomUUID();
      const askedAt = performance.now();
      try {
        const epoch = Number(
          await this.redis.eval(ELECT, { keys: [LEADER_KEY, EPOCH_KEY], arguments: [token, String(TTL_MS)] }),
        );
        if (epoch > 0) await this.lead(epoch, token, askedAt, duty);
      } catch (err) {
        log.error({ err }, 'election round failed');
      }
      await sleep(2_000 + Math.random() * 1_000);
    }
  }

  stop() {
    this.stopping = true;
    this.term?.abort();
  }

  private async lead(epoch: number, token: string, askedAt: number, duty: Duty) {
    const term = (this.term = new AbortController());
    if (this.stopping) term.abort();
    let deadline: NodeJS.Timeout | undefined;
    const arm = (from: number) => {
      clearTimeout(deadline);
      deadline = setTimeout(() => term.abort(), Math.max(0, TTL_MS - MARGIN_MS - (performance.now() - from)));
    };
    arm(askedAt);

    const beat = setInterval(async () => {
      const sentAt = performance.now();
      try {
        const kept = await this.redis.eval(RENEW, { keys: [LEADER_KEY], arguments: [token, String(TTL_MS)] });
        if (kept === 1) arm(sentAt);
        else term.abort();
      } catch (err) {
        log.warn({ err, epoch }, 'renew failed');
      }
    }, TTL_MS / 5);

    log.info({ epoch }, 'elected');
    try {
      await duty(epoch, term.signal);
    } finally {
      clearInterval(beat);
      clearTimeout(deadline);
      this.term = null;
      await this.redis.eval(RESIGN, { keys: [LEADER_KEY], arguments: [token] }).catch(() => {});
      log.info({ epoch }, 'stepped down');
    }
  }
}

export const rollupDuty: Duty = async (epoch, signal) => {
  while (!signal.aborted) {
    const from = new Date(Math.floor(Date.now() / 60_000 - 2) * 60_000);
    await pool.query(
      `INSERT INTO telemetry_rollups AS r (device_id, bucket, avg_value, max_value, samples, epoch)
       SELECT device_id, date_trunc('minute', ts), avg(value), max(value), count(*), $2::bigint
         FROM telemetry
        WHERE ts >= $1::timestamptz AND ts < $1::timestamptz + interval '2 minutes'
        GROUP BY 1, 2
       ON CONFLICT (device_id, bucket) DO UPDATE
          SET avg_value = EXCLUDED.avg_value, max_value = EXCLUDED.max_value,
              samples = EXCLUDED.samples, epoch = EXCLUDED.epoch
        WHERE r.epoch <= EXCLUDED.epoch`,
      [from, epoch],
    );
    await sleep(20_000, undefined, { signal }).catch(() => {});
  }
};
