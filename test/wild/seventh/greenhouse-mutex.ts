import Redis from 'ioredis';
import { randomUUID } from 'crypto';

const redis = new Redis(process.env.REDIS_URL!);

const config = {
  lockTtl: Number(process.env.VENT_LOCK_TTL ?? 30), // seconds
};

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

export class GreenhouseMutex {
  private token?: string;
  private deadline = 0;

  constructor(private readonly house: string) {}

  private get key() {
    return `greenhouse:${this.house}:vents`;
  }

  async acquire(): Promise<boolean> {
    const token = randomUUID();
    const started = Date.now();
    const ok = await redis.set(this.key, token, 'PX', config.lockTtl, 'NX');
    if (ok !== 'OK') return false;
    this.token = token;
    this.deadline = started + config.lockTtl * 1000;
    return true;
  }

  assertHeld(marginMs = 3000) {
    if (!this.token || Date.now() > this.deadline - marginMs) throw new Error('vent lock expired');
  }

  async release(): Promise<void> {
    const token = this.token;
    this.token = undefined;
    if (token) await redis.eval(RELEASE, 1, this.key, token);
  }
}

export async function ventilate(
  house: string,
  api: { angle(h: string): Promise<number>; move(h: string, to: number, timeoutMs: number): Promise<void> },
  step: number,
) {
  const mutex = new GreenhouseMutex(house);
  if (!(await mutex.acquire())) return 'busy';
  try {
    const angle = await api.angle(house);
    mutex.assertHeld();
    await api.move(house, Math.min(90, Math.max(0, angle + step)), 2000);
    return 'moved';
  } finally {
    await mutex.release();
  }
}
