import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

const LOCK_MS = 20_000;
const PLAN_TIMEOUT_MS = 6_000;
const MAX_TRIES = 8;

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

const END_TRIP = `if redis.call('hget', KEYS[1], 'trip') == ARGV[1] then return redis.call('hdel', KEYS[1], 'trip', 'eta') else return 0 end`;

export interface RoutePlanner {
  etaMinutes(vehicleId: string, pickup: string, signal: AbortSignal): Promise<number>;
}

export interface Trip {
  id: string;
  pickup: string;
}

export type DispatchResult = { assigned: true; etaMinutes: number } | { assigned: false; reason: string };

/** Hands a trip to a vehicle. A vehicle drives one trip at a time. */
export class Dispatcher {
  constructor(
    private readonly client: RedisClientType,
    private readonly planner: RoutePlanner,
  ) {}

  async dispatch(vehicleId: string, trip: Trip): Promise<DispatchResult> {
    const lockKey = `vehicle:${vehicleId}:lock`;
    const token = randomUUID();

    for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
      const reply = await this.client.set(lockKey, token, {
        condition: 'NX',
        expiration: { type: 'PX', value: LOCK_MS },
      });
      if (reply === 'OK') break;
      await sleep(100 + Math.random() * 100);
    }

    try {
      const current = await this.client.hGet(`vehicle:${vehicleId}`, 'trip');
      if (current) return { assigned: false, reason: `on trip ${current}` };

      const eta = await this.planner.etaMinutes(vehicleId, trip.pickup, AbortSignal.timeout(PLAN_TIMEOUT_MS));
      if (eta > 25) return { assigned: false, reason: 'too far away' };

      await this.client.hSet(`vehicle:${vehicleId}`, { trip: trip.id, eta: String(eta) });
      return { assigned: true, etaMinutes: eta };
    } finally {
      await this.client.eval(RELEASE, { keys: [lockKey], arguments: [token] }).catch(() => {
        // LOCK_MS takes care of it
      });
    }
  }

  async finish(vehicleId: string, tripId: string): Promise<void> {
    await this.client.eval(END_TRIP, { keys: [`vehicle:${vehicleId}`], arguments: [tripId] });
  }
}
