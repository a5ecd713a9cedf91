import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

/*
 * The weekly plan of a device is changed by the app, by voice assistants and by the
 * "learning" job. A change is read, compute (remote, slow), write. The lock keeps them
 * from doing that at once; the number that comes with it keeps a late writer out.
 */

const LOCK = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const SAVE_PLAN = `
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'plan', ARGV[2], 'savedAt', ARGV[3])
return 1`;

export type Slot = { day: number; from: string; targetC: number };
export type Plan = { slots: Slot[] };

export class DeviceBusy extends Error {}
export class StaleWriter extends Error {}

export class ScheduleService {
  constructor(
    private readonly redis: Redis,
    private readonly optimiserUrl: string,
    private readonly ttlMs = 15_000,
  ) {}

  private keys(deviceId: string) {
    // braces: all of a device's keys in one cluster slot
    return {
      lock: `thermo:{${deviceId}}:lock`,
      fence: `thermo:{${deviceId}}:fence`,
      plan: `thermo:{${deviceId}}:plan`,
    };
  }

  private async acquire(deviceId: string): Promise<{ token: string; fence: number }> {
    const { lock, fence } = this.keys(deviceId);
    const token = randomBytes(16).toString('hex');
    for (let attempt = 0; attempt < 20; attempt++) {
      const n = Number(await this.redis.eval(LOCK, 2, lock, fence, token, this.ttlMs));
      if (n > 0) return { token, fence: n };
      await new Promise((r) => setTimeout(r, 150 + Math.random() * 100));
    }
    throw new DeviceBusy(`thermostat ${deviceId} is being changed`);
  }

  private async optimise(deviceId: string, plan: Plan): Promise<Plan> {
    const res = await fetch(`${this.optimiserUrl}/devices/${deviceId}/optimise`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(plan),
      signal: AbortSignal.timeout(8_000),
    });
    if (!res.ok) throw new Error(`optimiser: ${res.status}`);
    return (await res.json()) as Plan;
  }

  async change(deviceId: string, edit: (plan: Plan) => Plan): Promise<Plan> {
    const { lock, fence: fenceKey, plan: planKey } = this.keys(deviceId);
    const { token, fence } = await this.acquire(deviceId);
    try {
      const raw = await this.redis.hget(planKey, 'plan');
      const current: Plan = raw ? JSON.parse(raw) : { slots: [] };
      const next = await this.optimise(deviceId, edit(current));

      const saved = await this.redis.eval(
        SAVE_PLAN, 2, planKey, fenceKey,
        String(fence), JSON.stringify(next), new Date().toISOString(),
      );
      if (saved !== 1) {
        throw new StaleWriter(`plan of ${deviceId} was taken over by a later change`);
      }
      return next;
    } finally {
      await this.redis.eval(UNLOCK, 1, lock, token).catch((err: Error) => {
        console.warn(`thermostat ${deviceId}: unlock failed: ${err.message}`);
      });
    }
  }
}
