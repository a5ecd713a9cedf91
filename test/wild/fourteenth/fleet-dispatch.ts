import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import type { Redis } from "ioredis";

export interface Vehicle {
  id: string;
  position: [number, number];
}

export interface DispatchApi {
  freeVehicles(zone: string, signal: AbortSignal): Promise<Vehicle[]>;
  assign(vehicle: string, ride: string, signal: AbortSignal): Promise<void>;
}

export interface Ride {
  id: string;
  zone: string;
  pickup: [number, number];
}

interface Held {
  value: string;
  until: number;
}

const UNSET = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0';

export class ZoneLock {
  constructor(
    private readonly nodes: Redis[],
    private readonly ttl = 15_000,
    private readonly nodeTimeout = 150,
  ) {}

  async acquire(zone: string, tries = 5): Promise<Held | null> {
    for (let i = 0; i < tries; i++) {
      const value = randomUUID();
      const started = performance.now();
      const replies = await Promise.all(this.nodes.map((node) => this.setOn(node, zone, value)));

      const answered = replies.filter((r) => r !== "unreachable");
      const granted = answered.filter((r) => r === "granted");
      const drift = this.ttl * 0.01 + 2;
      const until = started + this.ttl - drift;

      if (granted.length > answered.length / 2 && until - performance.now() > this.ttl / 2) {
        return { value, until };
      }
      await this.release(zone, value);
      await pause(100 + Math.random() * 200 * (i + 1));
    }
    return null;
  }

  async release(zone: string, value: string): Promise<void> {
    await Promise.allSettled(this.nodes.map((node) => node.eval(UNSET, 1, `zone:${zone}`, value)));
  }

  private async setOn(node: Redis, zone: string, value: string): Promise<"granted" | "refused" | "unreachable"> {
    const timer = new AbortController();
    try {
      return await Promise.race([
        node.set(`zone:${zone}`, value, "PX", this.ttl, "NX").then((r) => (r === "OK" ? "granted" : "refused")),
        pause(this.nodeTimeout, "unreachable" as const, { signal: timer.signal }),
      ]);
    } catch {
      return "unreachable";
    } finally {
      timer.abort();
    }
  }
}

/** Gives the nearest free vehicle of the zone to a ride. */
export function createDispatcher(lock: ZoneLock, api: DispatchApi) {
  return async function dispatch(ride: Ride): Promise<string | null> {
    const held = await lock.acquire(ride.zone);
    if (!held) throw new Error(`zone ${ride.zone} is being dispatched`);
    try {
      const signal = AbortSignal.timeout(Math.max(1, Math.floor(held.until - performance.now() - 3_000)));
      const vehicles = await api.freeVehicles(ride.zone, signal);
      const nearest = vehicles
        .map((v) => ({ v, d: Math.hypot(v.position[0] - ride.pickup[0], v.position[1] - ride.pickup[1]) }))
        .sort((a, b) => a.d - b.d)[0];
      if (!nearest) return null;
      signal.throwIfAborted();
      await api.assign(nearest.v.id, ride.id, signal);
      return nearest.v.id;
    } finally {
      await lock.release(ride.zone, held.value);
    }
  };
}
