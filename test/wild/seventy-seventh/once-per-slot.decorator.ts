import { randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import type { Redis } from 'ioredis';

export interface OncePerSlotOptions {
  /** Job name, becomes part of the Redis key. */
  name: string;
  /** Distance between two ticks of the cron expression. */
  everyMs: number;
  /** Offset of the ticks from multiples of `everyMs` since the epoch (UTC). Default 0. */
  phaseMs?: number;
}

interface HasRedis {
  redis: Redis;
}

const DAY_MS = 24 * 60 * 60 * 1000;
const log = new Logger('OncePerSlot');

async function claim(redis: Redis, key: string, me: string, retainMs: number): Promise<boolean> {
  if ((await redis.set(key, me, 'PX', retainMs, 'NX')) === 'OK') return true;
  // ioredis sends a command again after a reconnect, so the marker may be our own
  return (await redis.get(key)) === me;
}

/**
 * Runs a scheduled method at most once per tick over all replicas.
 *
 * The first replica to mark the tick runs it; the mark stays, so a replica whose timer
 * fires a little later skips. A run that fails or dies is not repeated for that tick, the
 * next tick picks up what it left. Long runs may overlap with the next tick.
 *
 * @example
 * ```ts
 * @Cron('0,15,30,45 * * * *')
 * @OncePerSlot({ name: 'soil-moisture-pull', everyMs: 15 * 60_000 })
 * async pullSoilMoisture() { ... }
 *
 * @Cron('0 12 * * *', { timeZone: 'UTC' })
 * @OncePerSlot({ name: 'spray-advice-mail', everyMs: 86_400_000, phaseMs: 12 * 3_600_000 })
 * async mailSprayAdvice() { ... }
 * ```
 */
export function OncePerSlot({ name, everyMs, phaseMs = 0 }: OncePerSlotOptions) {
  const toleranceMs = everyMs / 4;
  const retainMs = Math.max(DAY_MS, 3 * everyMs);

  return function <A extends unknown[]>(
    _target: object,
    _property: string | symbol,
    descriptor: TypedPropertyDescriptor<(...args: A) => Promise<void>>,
  ) {
    const original = descriptor.value!;

    descriptor.value = async function (this: unknown, ...args: A): Promise<void> {
      const { redis } = this as HasRedis;
      const slot = Math.round((Date.now() - phaseMs) / everyMs) * everyMs + phaseMs;
      const offGrid = () => Math.abs(Date.now() - slot) > toleranceMs;

      if (offGrid()) {
        log.warn(`${name}: fired too far from a tick, skipped (check everyMs and phaseMs)`);
        return;
      }

      let mine: boolean;
      try {
        mine = await claim(redis, `cron:${name}:${slot}`, randomUUID(), retainMs);
      } catch (err) {
        log.error(`${name}: tick ${new Date(slot).toISOString()} skipped, no answer from Redis`, err);
        return;
      }

      if (!mine) return;
      if (offGrid()) {
        log.warn(`${name}: claimed tick ${new Date(slot).toISOString()} too late, skipped`);
        return;
      }
      await original.apply(this, args);
    };

    return descriptor;
  };
}
