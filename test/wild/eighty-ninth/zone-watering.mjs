/**
 * Watering of irrigation zones.
 *
 * Several planners (soil probes, weather model, the gardener's phone) may want to
 * water the same zone. One of them gets the zone; the others are told who has it.
 *
 * Every grant carries a growing number, the fence, and every request to the valve
 * gateway shows it. The gateway handles the requests of a zone one by one, remembers
 * the highest fence it was shown and answers 409 to a lower one. So once a planner has
 * looked at a zone, an earlier one that overslept its grant cannot open the valve any
 * more; and if that one was quicker, the valve is seen running.
 */
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const GRANT_MS = 30_000;
const HTTP_TIMEOUT_MS = 5_000;
const GATEWAY = process.env.VALVE_GATEWAY ?? 'http://valves.local:8080';

const GRANT = `
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('incr', KEYS[2])
end
return 0`;

const RETURN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class ZoneTakenError extends Error {
  constructor(zoneId) {
    super(`zone ${zoneId} is being watered by another planner`);
    this.name = 'ZoneTakenError';
  }
}

export class StaleGrantError extends Error {
  constructor(zoneId, fence) {
    super(`grant #${fence} for zone ${zoneId} has been superseded`);
    this.name = 'StaleGrantError';
  }
}

/**
 * @template T
 * @param {import('redis').RedisClientType} redis
 * @param {string} zoneId
 * @param {(fence: number) => Promise<T>} fn
 * @returns {Promise<T>}
 */
export async function withZone(redis, zoneId, fn) {
  const keys = [`{zone:${zoneId}}:grant`, `{zone:${zoneId}}:fence`];
  const token = randomUUID();

  const fence = await redis.eval(GRANT, { keys, arguments: [token, String(GRANT_MS)] });
  if (fence === 0) throw new ZoneTakenError(zoneId);

  try {
    return await fn(fence);
  } finally {
    await redis
      .eval(RETURN, { keys: [keys[0]], arguments: [token] })
      .catch((err) => console.warn(`zone ${zoneId}: grant left to expire (${err.message})`));
  }
}

/** One request to the gateway on behalf of grant number `fence`. */
async function gateway(zoneId, fence, path, body) {
  const res = await fetch(`${GATEWAY}/zones/${encodeURIComponent(zoneId)}/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { 'content-type': 'application/json', 'x-fence': String(fence) },
    body: body && JSON.stringify(body),
    signal: AbortSignal.timeout(HTTP_TIMEOUT_MS),
  });
  if (res.status === 409) throw new StaleGrantError(zoneId, fence);
  if (!res.ok) throw new Error(`gateway answered ${res.status}`);
  return res.json();
}

/** Waters a zone when it is dry; resolves to the minutes ordered. */
export function waterIfDry(redis, zoneId, { below = 22, minutes = 8 } = {}) {
  return withZone(redis, zoneId, async (fence) => {
    const { percent, running } = await gateway(zoneId, fence, 'state');
    if (running || percent >= below) return 0;
    // The gateway closes the valve by itself when the minutes are over.
    await gateway(zoneId, fence, 'run', { minutes });
    return minutes;
  });
}

export async function connect(url = process.env.REDIS_URL) {
  const client = createClient({ url });
  client.on('error', (err) => console.error('redis', err.message));
  await client.connect();
  return client;
}
