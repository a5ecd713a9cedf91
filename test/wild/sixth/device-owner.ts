import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/*
 * A device has one gateway that talks to it. The gateway says every few seconds that it is
 * alive; when it has not done so for a while another gateway takes the device over.
 */

interface OwnerRecord {
  owner: string;
  seenAt: number;
}

const STALE_AFTER = 15_000;

const BEAT = `
local raw = redis.call('GET', KEYS[1])
if raw and cjson.decode(raw).owner == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const LEAVE = `
local raw = redis.call('GET', KEYS[1])
if raw and cjson.decode(raw).owner == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class DeviceOwner {
  private readonly id = randomUUID();
  private readonly redis: Redis;
  private readonly key: string;
  private aliveUntil = 0;
  private left = false;

  constructor(redis: Redis, deviceId: string) {
    this.redis = redis;
    this.key = `device:${deviceId}:owner`;
  }

  /** The clock of Redis, the gateways' own ones are not to be trusted. */
  private async now(): Promise<number> {
    const [seconds, micros] = (await this.redis.time()).map(Number) as [number, number];
    return seconds * 1000 + Math.floor(micros / 1000);
  }

  private record(seenAt: number): string {
    return JSON.stringify({ owner: this.id, seenAt } satisfies OwnerRecord);
  }

  async tryOwn(): Promise<boolean> {
    this.left = false;
    const startedAt = performance.now();
    const now = await this.now();

    if ((await this.redis.set(this.key, this.record(now), 'NX')) === 'OK') {
      this.aliveUntil = startedAt + STALE_AFTER;
      return true;
    }

    const raw = await this.redis.get(this.key);
    if (!raw) return false; // just let go, next time
    const current = JSON.parse(raw) as OwnerRecord;
    if (now - current.seenAt <= STALE_AFTER) return false;

    // the owner is dead
    await this.redis.set(this.key, this.record(now));
    this.aliveUntil = startedAt + STALE_AFTER;
    return true;
  }

  /** Every few seconds. False: stop talking to the device. */
  async beat(): Promise<boolean> {
    const startedAt = performance.now();
    const ok = await this.redis.eval(BEAT, 1, this.key, this.id, this.record(await this.now()));
    this.aliveUntil = ok === 1 && !this.left ? startedAt + STALE_AFTER : 0;
    return this.owns();
  }

  owns(): boolean {
    return performance.now() < this.aliveUntil;
  }

  async leave(): Promise<void> {
    this.left = true;
    this.aliveUntil = 0;
    await this.redis.eval(LEAVE, 1, this.key, this.id);
  }
}
