import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/**
 * Publishes the route plan of a depot. Replanning is triggered by new orders, by traffic
 * and by hand, from several pods at once; the solver is capped at 20 s, and the vans read
 * whatever plan was published last. Plans carry a fence number so that a planner that got
 * stuck cannot overwrite the plan of its successor.
 */
const LEASE_TTL_MS = 60_000;
const SOLVER_CAP_MS = 20_000;

const PUBLISH = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
local mine = tonumber(ARGV[1])
if mine < seen then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'plan', ARGV[2], 'publishedAt', ARGV[3])
return 1`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface PlanningLease {
  depot: string;
  owner: string;
  fence: number;
}

export interface Stop {
  orderId: string;
  van: string;
  sequence: number;
}

export class DepotBusyError extends Error {}
export class StalePlanError extends Error {}

const keysOf = (depot: string) => ({
  lease: `depot:{${depot}}:planning`,
  fence: `depot:{${depot}}:fence`,
  plan: `depot:{${depot}}:plan`,
});

export async function acquirePlanningLease(redis: Redis, depot: string, waitMs = 30_000): Promise<PlanningLease> {
  const keys = keysOf(depot);
  const fence = await redis.incr(keys.fence);
  const owner = `${hostname()}/${process.pid}/${fence}`;

  const giveUpAt = performance.now() + waitMs;
  for (;;) {
    const reply = await redis.set(keys.lease, owner, 'PX', LEASE_TTL_MS, 'NX');
    if (reply === 'OK') return { depot, owner, fence };
    if (performance.now() > giveUpAt) throw new DepotBusyError(`depot ${depot} is being planned`);
    await sleep(150 + Math.random() * 150);
  }
}

export async function publishPlan(redis: Redis, lease: PlanningLease, stops: Stop[]): Promise<void> {
  const accepted = await redis.eval(
    PUBLISH,
    1,
    keysOf(lease.depot).plan,
    lease.fence,
    JSON.stringify(stops),
    new Date().toISOString(),
  );
  if (accepted !== 1) throw new StalePlanError(`plan ${lease.fence} of depot ${lease.depot} was overtaken`);
}

export async function releasePlanningLease(redis: Redis, lease: PlanningLease): Promise<void> {
  await redis.eval(RELEASE, 1, keysOf(lease.depot).lease, lease.owner);
}

export async function replanDepot(
  redis: Redis,
  depot: string,
  solve: (depot: string, signal: AbortSignal) => Promise<Stop[]>,
): Promise<Stop[]> {
  const lease = await acquirePlanningLease(redis, depot);
  try {
    const stops = await solve(depot, AbortSignal.timeout(SOLVER_CAP_MS));
    await publishPlan(redis, lease, stops);
    console.info(`[routes] depot ${depot}: plan ${lease.fence} with ${stops.length} stops`);
    return stops;
  } finally {
    await releasePlanningLease(redis, lease).catch((err: Error) => {
      console.warn(`[routes] depot ${depot}: lease not released, expires: ${err.message}`);
    });
  }
}
