import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

const primary = new Redis(process.env.REDIS_PRIMARY_URL!);
// "is it alive" is asked by every poller each second, so it goes to the replica
const replica = new Redis(process.env.REDIS_REPLICA_URL!, { readOnly: true });

const BEAT_TTL = 10_000;

const TAKE_OVER = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
  return 1
end
return 0`;
const FREE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

/**
 * `owner` names the poller of a concentrator and has no ttl; the poller is considered
 * dead when its heartbeat key is gone. A heartbeat that ran out is never set again.
 */
export class MeterOwnership {
  private readonly token = randomUUID();
  private until = 0;
  private timer?: NodeJS.Timeout;

  constructor(private readonly concentrator: string) {}

  private get ownerKey() {
    return `meters:${this.concentrator}:owner`;
  }
  private beatKey(token: string) {
    return `meters:${this.concentrator}:beat:${token}`;
  }

  async claim(): Promise<boolean> {
    const t = performance.now();
    await primary.set(this.beatKey(this.token), '1', 'PX', BEAT_TTL);
    if (!(await this.seize())) return false;
    this.until = t + BEAT_TTL;
    this.timer = setInterval(() => this.beat(), BEAT_TTL / 4);
    return true;
  }

  private async seize(): Promise<boolean> {
    if ((await primary.set(this.ownerKey, this.token, 'NX')) === 'OK') return true;
    const current = await primary.get(this.ownerKey);
    if (current === null) return false; // just freed, next round
    if (await replica.exists(this.beatKey(current))) return false;
    return (await primary.eval(TAKE_OVER, 1, this.ownerKey, current, this.token)) === 1;
  }

  private async beat() {
    const t = performance.now();
    const alive = await primary.pexpire(this.beatKey(this.token), BEAT_TTL).catch(() => null);
    if (alive === 1) this.until = t + BEAT_TTL;
    if (alive === 0) clearInterval(this.timer);
  }

  stillMine(): boolean {
    return performance.now() < this.until - 3_000;
  }

  async drop(): Promise<void> {
    clearInterval(this.timer);
    this.until = 0;
    await primary.eval(FREE, 1, this.ownerKey, this.token);
  }
}

export async function collectReadings(
  concentrator: string,
  poll: () => AsyncIterable<{ meter: string; kwh: number }>,
  store: (r: { meter: string; kwh: number }, timeoutMs: number) => Promise<void>,
): Promise<number> {
  const owner = new MeterOwnership(concentrator);
  if (!(await owner.claim())) return 0;
  let n = 0;
  try {
    for await (const reading of poll()) {
      if (!owner.stillMine()) break;
      await store(reading, 2_000);
      n++;
    }
    return n;
  } finally {
    await owner.drop();
  }
}
