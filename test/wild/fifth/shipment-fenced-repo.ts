import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';

/*
 * Shipments are planned by several planners. The lock can run out while the route solver is
 * busy, that's what the fence is for: postgres refuses a write with a lower fence.
 */

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class OvertakenError extends Error {
  constructor(shipmentId: string, fence: number) {
    super(`shipment ${shipmentId}: fence ${fence} has been overtaken`);
    this.name = 'OvertakenError';
  }
}

export interface Sql {
  run(text: string, params: unknown[]): Promise<{ rowCount: number }>;
  one<T>(text: string, params: unknown[]): Promise<T>;
}

export interface Shipment {
  id: string;
  stops: string[];
}

export class ShipmentRepo {
  constructor(
    private readonly sql: Sql,
    private readonly redis: Redis,
  ) {}

  load(id: string): Promise<Shipment> {
    return this.sql.one<Shipment>('SELECT id, stops FROM shipments WHERE id = $1', [id]);
  }

  async save(shipment: Shipment, plan: string[]): Promise<void> {
    const fence = await this.redis.incr(`shipment:${shipment.id}:fence`);
    const res = await this.sql.run(
      'UPDATE shipments SET stops = $2, fence = $3 WHERE id = $1 AND fence < $3',
      [shipment.id, JSON.stringify(plan), fence],
    );
    if (res.rowCount === 0) throw new OvertakenError(shipment.id, fence);
  }
}

export class Planner {
  constructor(
    private readonly redis: Redis,
    private readonly repo: ShipmentRepo,
    private readonly ttlMs = 15_000,
  ) {}

  async plan(shipmentId: string, solve: (s: Shipment) => Promise<string[]>): Promise<boolean> {
    const key = `shipment:${shipmentId}:lock`;
    const token = randomUUID();
    if ((await this.redis.set(key, token, 'PX', this.ttlMs, 'NX')) !== 'OK') return false;

    try {
      const shipment = await this.repo.load(shipmentId);
      const stops = await solve(shipment); // seconds, minutes on a bad day
      await this.repo.save(shipment, stops);
      return true;
    } catch (err) {
      if (err instanceof OvertakenError) {
        console.warn(err.message);
        return false;
      }
      throw err;
    } finally {
      await this.redis
        .eval(UNLOCK, 1, key, token)
        .catch((err: Error) => console.warn(`shipment ${shipmentId}: unlock: ${err.message}`));
    }
  }
}
