import { randomUUID } from 'node:crypto';
import { createClientPool, WatchError } from 'redis';

const LOCK_MS = 15_000;

const pool = createClientPool({ url: process.env.REDIS_URL }, { minimum: 1, maximum: 20 });
pool.on('error', (err) => console.error('redis pool', err));
await pool.connect();

async function planRoute(position, load) {
  const res = await fetch(process.env.ROUTING_URL, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ from: position, via: load.pickup, to: load.dropoff }),
    signal: AbortSignal.timeout(5_000),
  });
  if (!res.ok) throw new Error(`routing service: ${res.status}`);
  return res.json();
}

async function commit({ lockKey, token, driverKey, loadKey, driverId, loadId, route }) {
  return pool.execute(async (client) => {
    await client.watch([lockKey, driverKey, loadKey]);
    try {
      if ((await client.get(lockKey)) !== token) return { status: 'lock-lost' };
      if ((await client.hGet(driverKey, 'status')) !== 'available') return { status: 'driver-unavailable' };
      if ((await client.hGet(loadKey, 'status')) !== 'open') return { status: 'load-gone' };

      await client
        .multi()
        .hSet(driverKey, { status: 'assigned', load: loadId })
        .hSet(loadKey, { status: 'assigned', driver: driverId, eta: String(route.eta) })
        .rPush('events:assignments', JSON.stringify({ driverId, loadId, route: route.id }))
        .del(lockKey)
        .exec();
      return { status: 'assigned', eta: route.eta };
    } catch (err) {
      if (err instanceof WatchError) return { status: 'conflict' };
      throw err;
    } finally {
      await client.unwatch().catch(() => {});
    }
  });
}

async function unlock(lockKey, token) {
  await pool.execute(async (client) => {
    await client.watch(lockKey);
    try {
      if ((await client.get(lockKey)) !== token) return;
      await client.multi().del(lockKey).exec();
    } catch (err) {
      if (!(err instanceof WatchError)) throw err;
    } finally {
      await client.unwatch().catch(() => {});
    }
  });
}

/**
 * Routing requests are billed, so only one dispatcher at a time plans for a driver.
 */
export async function assignLoad(driverId, loadId) {
  const lockKey = `lock:driver:${driverId}`;
  const driverKey = `driver:${driverId}`;
  const loadKey = `load:${loadId}`;
  const token = randomUUID();

  const locked = await pool.set(lockKey, token, { NX: true, PX: LOCK_MS });
  if (locked !== 'OK') return { status: 'busy' };

  try {
    const driver = await pool.hGetAll(driverKey);
    if (driver.status !== 'available') return { status: 'driver-unavailable' };
    const load = await pool.hGetAll(loadKey);
    if (load.status !== 'open') return { status: 'load-gone' };

    const route = await planRoute(driver.position, load);
    return await commit({ lockKey, token, driverKey, loadKey, driverId, loadId, route });
  } finally {
    await unlock(lockKey, token).catch((err) => console.warn('unlock', lockKey, err));
  }
}
