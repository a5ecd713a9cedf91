import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';

// Meters report through several gateways. The gateway that has the meter's lock writes the
// latest reading; the store takes a write only with the highest fence it has seen so far.

const redis = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
redis.on('error', (err) => console.error('meter store:', err.message));
await redis.connect();

const LOCK = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const WRITE = `
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and ARGV[1] < seen then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2], 'at', ARGV[3])
return 1`;

const TTL_MS = 12_000;

const keys = (meter) => ({
  lock: `{meter:${meter}}:lock`,
  counter: `{meter:${meter}}:counter`,
  data: `{meter:${meter}}:data`,
});

export async function claimMeter(meter) {
  const k = keys(meter);
  const owner = randomUUID();
  const fence = await redis.eval(LOCK, { keys: [k.lock, k.counter], arguments: [owner, String(TTL_MS)] });
  return fence > 0 ? { meter, owner, fence } : null;
}

export async function freeMeter({ meter, owner }) {
  try {
    await redis.eval(UNLOCK, { keys: [keys(meter).lock], arguments: [owner] });
  } catch (err) {
    console.warn(`meter ${meter} frees itself in ${TTL_MS} ms:`, err.message);
  }
}

export async function writeReading({ meter, fence }, value, at) {
  const done = await redis.eval(WRITE, {
    keys: [keys(meter).data],
    arguments: [String(fence), String(value), at.toISOString()],
  });
  if (done !== 1) throw new Error(`meter ${meter}: reading with fence ${fence} refused`);
}

export async function latest(meter) {
  const { value, at } = await redis.hGetAll(keys(meter).data);
  return value === undefined ? null : { value: Number(value), at: new Date(at) };
}

/** Called by the gateway for a meter that has news. `poll` talks to the meter over radio. */
export async function collect(meter, poll) {
  const claim = await claimMeter(meter);
  if (!claim) return false;
  try {
    const { value, at } = await poll(meter); // no telling how long
    await writeReading(claim, value, at);
    return true;
  } finally {
    await freeMeter(claim);
  }
}
