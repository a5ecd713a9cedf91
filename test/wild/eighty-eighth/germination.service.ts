import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

export const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err.message));

const OWNER = `${hostname()}:${process.pid}:${randomUUID()}`;

interface ExclusiveOptions { ttlMs?: number; waitMs?: number }

/** Cluster-wide exclusive method. Reentrant: a locked method may call another one on the same key. */
export function Exclusive<A extends unknown[]>(keyOf: (...args: A) => string, { ttlMs = 15_000, waitMs = 8_000 }: ExclusiveOptions = {}) {
  return function <This, R>(method: (this: This, ...args: A) => Promise<R>, _ctx: ClassMethodDecoratorContext) {
    return async function (this: This, ...args: A): Promise<R> {
      const key = `seedbank:lock:${keyOf(...args)}`;
      const giveUpAt = Date.now() + waitMs;
      while (!(await script(ENTER, key, ttlMs))) {
        if (Date.now() > giveUpAt) throw new Error(`${key} is busy`);
        await sleep(100 + Math.random() * 100);
      }
      let lost = false;
      let validUntil = Date.now() + ttlMs;
      const beat = setInterval(() => {
        const sentAt = Date.now();
        script(EXTEND, key, ttlMs).then(
          (ok) => (ok ? (validUntil = sentAt + ttlMs) : (lost = true)),
          (err) => console.warn(key, err.message),
        );
      }, ttlMs / 3);
      try {
        const out = await method.apply(this, args);
        if (lost || Date.now() > validUntil) throw new Error(`${key} was lost during the call`);
        return out;
      } finally {
        clearInterval(beat);
        await script(LEAVE, key, ttlMs).catch((err) => console.warn(key, err.message));
      }
    };
  };
}

export class GerminationService {
  constructor(private readonly trays: { load(id: string): Promise<Tray>; save(t: Tray): Promise<void> }) {}

  @Exclusive((batch: string, _sprouted: number) => `batch:${batch}`)
  async recordCount(batch: string, sprouted: number): Promise<Tray> {
    const tray = await this.trays.load(batch);
    tray.counts.push({ day: tray.day, sprouted });
    await this.trays.save(tray);
    return tray.counts.length >= 14 ? this.closeTrial(batch) : tray;
  }

  @Exclusive((batch: string) => `batch:${batch}`)
  async closeTrial(batch: string): Promise<Tray> {
    const tray = await this.trays.load(batch);
    tray.viability = tray.counts.reduce((n, c) => n + c.sprouted, 0) / tray.sown;
    await this.trays.save(tray);
    return tray;
  }
}

interface Tray { id: string; day: number; sown: number; viability?: number; counts: { day: number; sprouted: number }[] }

async function script(lua: string, key: string, ttlMs: number): Promise<boolean> {
  return (await redis.eval(lua, { keys: [key], arguments: [OWNER, String(ttlMs)] })) === 1;
}

const ENTER = `
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'depth', 1)
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;
const EXTEND = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;
const LEAVE = `
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
if redis.call('HINCRBY', KEYS[1], 'depth', -1) < 1 then redis.call('DEL', KEYS[1]) end
return 1`;
