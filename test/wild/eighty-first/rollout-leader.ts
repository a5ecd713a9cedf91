import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export class ExclusiveTask {
  constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly ttlMs = 15_000,
  ) {}

  async run<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    const token = randomUUID();
    const reply = await this.redis.set(this.key, token, 'PX', this.ttlMs, 'NX');
    if (reply !== 'OK') return undefined;

    const lost = new AbortController();
    let renewedAt = Date.now();
    const watchdog = setInterval(async () => {
      const sentAt = Date.now();
      try {
        const ok = await this.redis.eval(EXTEND, 1, this.key, token, this.ttlMs);
        if (ok === 1) renewedAt = sentAt;
        else lost.abort(new Error(`${this.key} lost`));
      } catch {
        if (Date.now() - renewedAt > this.ttlMs * 0.8) lost.abort(new Error(`${this.key} lost`));
      }
    }, this.ttlMs / 5);

    const result = await work(lost.signal);

    clearInterval(watchdog);
    await this.redis.eval(RELEASE, 1, this.key, token);
    return result;
  }
}

interface Wave {
  id: string;
  devices: string[];
}

async function push(wave: Wave, signal: AbortSignal): Promise<void> {
  for (const device of wave.devices) {
    const res = await fetch(`${process.env.FLEET_API}/devices/${device}/firmware`, {
      method: 'PUT',
      headers: { 'idempotency-key': `${wave.id}:${device}` },
      signal: AbortSignal.any([signal, AbortSignal.timeout(5_000)]),
    });
    if (!res.ok) throw new Error(`device ${device}: ${res.status}`);
  }
}

export async function rolloutLoop(redis: Redis, nextWave: () => Promise<Wave | null>): Promise<never> {
  const task = new ExclusiveTask(redis, 'firmware:rollout');
  for (;;) {
    try {
      await task.run(async (signal) => {
        const wave = await nextWave();
        if (wave) await push(wave, signal);
      });
    } catch (err) {
      console.error('rollout wave failed', err);
    }
    await sleep(10_000);
  }
}
