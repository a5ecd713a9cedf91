import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import axios from 'axios';
import { logger } from './logger';
import { gridLimit, turbineOutputs } from './scada.client';

const LEASE_MS = 12_000;
const BEAT_MS = 3_000;
const MARGIN_MS = 2_000;

// Renews or takes the lease. Answers the term number of the holder, 0 when it is another's.
const CONTEND = `
local cur = redis.call('GET', KEYS[1])
if cur == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return tonumber(redis.call('GET', KEYS[2]))
end
if cur then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('INCR', KEYS[2])`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class CurtailmentLeader {
  private readonly id = randomUUID();
  private term = 0;
  private until = 0;
  private stopping = false;

  constructor(private readonly redis: Redis, private readonly farm: string) {}

  private get keys(): [string, string] {
    return [`{farm:${this.farm}}:leader`, `{farm:${this.farm}}:term`];
  }

  currentTerm(): number | null {
    return performance.now() < this.until ? this.term : null;
  }

  async contend(): Promise<void> {
    while (!this.stopping) {
      const sentAt = performance.now();
      try {
        const term = Number(await this.redis.eval(CONTEND, 2, ...this.keys, this.id, LEASE_MS));
        if (term > 0) {
          if (term !== this.term) logger.info({ farm: this.farm, term }, 'leading');
          this.term = term;
          this.until = sentAt + LEASE_MS - MARGIN_MS;
        } else {
          this.until = 0;
        }
      } catch (err) {
        // Unknown outcome: lead on no longer than the last confirmed lease allows.
        logger.warn({ err, farm: this.farm }, 'lease not renewed');
      }
      await sleep(BEAT_MS);
    }
    this.until = 0;
    await this.redis.eval(RESIGN, 1, this.keys[0], this.id).catch(() => undefined);
  }

  stop(): void {
    this.stopping = true;
    this.until = 0;
  }
}

async function curtail(farm: string, leader: CurtailmentLeader): Promise<void> {
  const term = leader.currentTerm();
  if (term === null) return;
  const [limitKw, turbines] = await Promise.all([gridLimit(farm), turbineOutputs(farm)]);
  const total = turbines.reduce((n, t) => n + t.availableKw, 0);
  const factor = Math.min(1, limitKw / Math.max(total, 1));
  for (const t of turbines) {
    if (leader.currentTerm() !== term) return;
    // The turbine gateway keeps the highest term it has seen and refuses (412) any lower one.
    try {
      await axios.put(
        `${process.env.GATEWAY_URL}/turbines/${t.id}/setpoint`,
        { kw: Math.floor(t.availableKw * factor) },
        { headers: { 'x-leader-term': String(term) }, timeout: 1_500 },
      );
    } catch (err) {
      logger.error({ err, turbine: t.id, term }, 'setpoint refused, next round follows');
    }
  }
}

export async function run(farm: string): Promise<void> {
  const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000 });
  redis.on('error', (err) => logger.warn({ err }, 'redis'));
  const leader = new CurtailmentLeader(redis, farm);
  const contending = leader.contend();
  let stop = false;
  process.once('SIGTERM', () => { stop = true; });
  while (!stop) {
    await curtail(farm, leader).catch((err) => logger.error({ err }, 'curtailment round'));
    await sleep(1_000);
  }
  leader.stop();
  await contending;
  redis.disconnect();
}
