import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Flight corridors are planned by whichever dispatcher gets there first. Planning calls
 * the weather and obstacle services and can stall, so a clearance is only stored when
 * the planner is still the latest holder of the corridor.
 *
 * `client` is a connected client of the `redis` package.
 */

const LEASE_MS = 20_000;

// Taking the lease also stamps the corridor with a new fence number.
const TAKE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('HINCRBY', KEYS[2], 'fence', 1)
end
return 0`;

const STORE_CLEARANCE = `
if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'clearance', ARGV[2], 'clearedAt', ARGV[3])
return 1`;

const GIVE_BACK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class CorridorBusyError extends Error {
  name = 'CorridorBusyError';
}

export class StaleClearanceError extends Error {
  name = 'StaleClearanceError';
}

const leaseKey = (corridor) => `corridor:{${corridor}}:lease`;
const stateKey = (corridor) => `corridor:{${corridor}}:state`;

export async function takeCorridor(client, corridor, { waitMs = 5_000 } = {}) {
  const token = randomUUID();
  const giveUpAt = performance.now() + waitMs;
  for (;;) {
    const fence = await client.eval(TAKE, {
      keys: [leaseKey(corridor), stateKey(corridor)],
      arguments: [token, String(LEASE_MS)],
    });
    if (Number(fence) > 0) return { corridor, token, fence: String(fence) };
    if (performance.now() >= giveUpAt) {
      throw new CorridorBusyError(`corridor ${corridor} is being planned by another dispatcher`);
    }
    await sleep(80 + Math.random() * 120);
  }
}

export async function storeClearance(client, lease, clearance) {
  const stored = await client.eval(STORE_CLEARANCE, {
    keys: [stateKey(lease.corridor)],
    arguments: [lease.fence, JSON.stringify(clearance), new Date().toISOString()],
  });
  if (Number(stored) !== 1) {
    throw new StaleClearanceError(`clearance for ${lease.corridor} refused, fence ${lease.fence} is outdated`);
  }
}

export async function giveBackCorridor(client, lease) {
  await client.eval(GIVE_BACK, { keys: [leaseKey(lease.corridor)], arguments: [lease.token] });
}

/**
 * Extends the clearance of a corridor by one flight.
 * @param planFlight (flights, flight) => Promise<flights>; throws when there is no free slot
 */
export async function clearFlight(client, corridor, flight, planFlight, log = console) {
  const lease = await takeCorridor(client, corridor);
  try {
    const raw = await client.hGet(stateKey(corridor), 'clearance');
    const current = raw ? JSON.parse(raw) : { flights: [] };

    const flights = await planFlight(current.flights, flight);
    await storeClearance(client, lease, { flights });

    log.info(`corridor ${corridor}: cleared ${flight.id} under fence ${lease.fence}`);
    return flights;
  } finally {
    await giveBackCorridor(client, lease).catch((err) => {
      log.warn(`corridor ${corridor}: lease left to expire (${err.message})`);
    });
  }
}
