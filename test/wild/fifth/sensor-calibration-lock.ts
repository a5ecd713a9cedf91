import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';

export interface LockConfig {
  prefix: string;
  ttl: number;
  reserve: number;
}

/** LOCK_TTL and LOCK_RESERVE in seconds, as in the other services' charts. */
export function lockConfig(env: NodeJS.ProcessEnv = process.env): LockConfig {
  const ttl = Number(env.LOCK_TTL ?? 45);
  const reserve = Number(env.LOCK_RESERVE ?? 5);
  if (!(ttl > reserve && reserve > 0)) throw new Error(`LOCK_TTL=${ttl} LOCK_RESERVE=${reserve} make no sense`);
  return { prefix: env.LOCK_PREFIX ?? 'calib', ttl, reserve };
}

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface Lease {
  secondsLeft(): number;
}

export class CalibrationLock {
  private constructor(
    private readonly client: ReturnType<typeof createClient>,
    private readonly config: LockConfig,
  ) {}

  static async open(config = lockConfig()): Promise<CalibrationLock> {
    const client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
    client.on('error', (err: Error) => console.error('calibration lock:', err.message));
    await client.connect();
    return new CalibrationLock(client as ReturnType<typeof createClient>, config);
  }

  async run<T>(sensorId: string, work: (lease: Lease) => Promise<T>): Promise<T | undefined> {
    const key = `${this.config.prefix}:${sensorId}`;
    const token = randomUUID();
    const asked = performance.now();

    try {
      const reply = await this.client.set(key, token, {
        condition: 'NX',
        expiration: { type: 'PX', value: this.config.ttl },
      });
      if (reply !== 'OK') {
        console.info(`sensor ${sensorId} is being calibrated already`);
        return undefined;
      }
      const endsAt = asked + (this.config.ttl - this.config.reserve) * 1000;
      return await work({ secondsLeft: () => (endsAt - performance.now()) / 1000 });
    } finally {
      await this.client
        .eval(UNLOCK, { keys: [key], arguments: [token] })
        .catch((err: Error) => console.warn(`sensor ${sensorId}: unlock failed: ${err.message}`));
    }
  }

  close() {
    return this.client.close();
  }
}

export interface Sensor {
  id: string;
  measure(reference: number, opts: { timeoutMs: number }): Promise<number>;
  writeOffset(offset: number, opts: { timeoutMs: number }): Promise<void>;
}

const REFERENCES = [0, 25, 50, 100];

export async function calibrate(lock: CalibrationLock, sensor: Sensor): Promise<number | undefined> {
  return lock.run(sensor.id, async (lease) => {
    let sum = 0;
    for (const ref of REFERENCES) {
      if (lease.secondsLeft() < 5) throw new Error(`${sensor.id}: calibration takes too long`);
      sum += (await sensor.measure(ref, { timeoutMs: 5_000 })) - ref;
    }
    const offset = -sum / REFERENCES.length;
    if (lease.secondsLeft() < 2) throw new Error(`${sensor.id}: too late to write the offset`);
    await sensor.writeOffset(offset, { timeoutMs: 2_000 });
    return offset;
  });
}
