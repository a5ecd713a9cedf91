import { randomUUID } from "node:crypto";
import Redis from "ioredis";

const TTL_MS = 12_000;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

interface Clearance {
  key: string;
  token: string;
  /** on the performance.now() clock */
  validUntil: number;
}

export class CorridorBusyError extends Error {}
export class ClearanceExpiredError extends Error {}

export interface Leg {
  seq: number;
  lat: number;
  lon: number;
  altitude: number;
}

export interface Tower {
  uploadLeg(corridor: string, droneId: string, leg: Leg, opts: { signal: AbortSignal }): Promise<void>;
  activate(corridor: string, droneId: string, opts: { signal: AbortSignal }): Promise<void>;
}

/** Corridor clearances over independent Redis nodes; a majority has to agree. */
export class CorridorControl {
  private readonly nodes: Redis[];
  private readonly quorum: number;
  private readonly tower: Tower;

  constructor(tower: Tower, urls = (process.env.CORRIDOR_REDIS_URLS ?? "").split(",")) {
    this.tower = tower;
    this.nodes = urls.map((url) => {
      const node = new Redis(url, { commandTimeout: 5_000, maxRetriesPerRequest: 1 });
      node.on("error", (err) => console.warn(`corridor node ${url}: ${err.message}`));
      return node;
    });
    this.quorum = Math.floor(this.nodes.length / 2) + 1;
  }

  /** Replaces the flight plan in the corridor; nobody else may upload at the same time. */
  async fly(corridor: string, droneId: string, legs: Leg[]): Promise<void> {
    const clearance = await this.acquire(corridor);
    if (!clearance) throw new CorridorBusyError(corridor);
    try {
      for (const leg of legs) {
        await this.tower.uploadLeg(corridor, droneId, leg, { signal: this.remaining(clearance) });
      }
      await this.tower.activate(corridor, droneId, { signal: this.remaining(clearance) });
    } finally {
      await this.release(clearance.key, clearance.token);
    }
  }

  private async acquire(corridor: string): Promise<Clearance | null> {
    const key = `corridor:${corridor}`;
    const token = randomUUID();

    const votes = await Promise.all(this.nodes.map((node) => this.vote(node, key, token)));
    const granted = votes.filter(Boolean).length;
    const validUntil = performance.now() + TTL_MS - DRIFT_MS;

    if (granted < this.quorum) {
      await this.release(key, token);
      return null;
    }
    return { key, token, validUntil };
  }

  private async vote(node: Redis, key: string, token: string): Promise<boolean> {
    try {
      return (await node.set(key, token, "PX", TTL_MS, "NX")) === "OK";
    } catch {
      return false;
    }
  }

  private async release(key: string, token: string): Promise<void> {
    // Also on nodes that did not answer: the key may have been set there all the same.
    await Promise.allSettled(this.nodes.map((node) => node.eval(RELEASE, 1, key, token)));
  }

  private remaining({ key, validUntil }: Clearance): AbortSignal {
    const ms = Math.floor(validUntil - performance.now());
    if (ms <= 0) throw new ClearanceExpiredError(key);
    return AbortSignal.timeout(ms);
  }
}
