import { createClient } from 'redis';
import { randomBytes } from 'node:crypto';

const TTL = 5000;
const DRIFT = TTL * 0.01 + 2;
const release = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

const clients = await Promise.all(
  [process.env.REDIS_A, process.env.REDIS_B, process.env.REDIS_C].map(async (url) => {
    const c = createClient({ url, disableOfflineQueue: true });
    c.on('error', () => {});
    await c.connect();
    return c;
  }),
);
const majority = Math.floor(clients.length / 2) + 1;

async function lockSlot(slot) {
  const key = `clinic:slot:${slot}`;
  const token = randomBytes(16).toString('base64');

  let votes = 0;
  for (const c of clients) {
    try {
      const r = await c.set(key, token, { NX: true, PX: TTL });
      if (r === 'OK') votes += 1;
    } catch {
      // node down
    }
  }

  const unlock = () => Promise.allSettled(clients.map((c) => c.eval(release, { keys: [key], arguments: [token] })));
  if (votes < majority) {
    await unlock();
    return null;
  }
  const validUntil = performance.now() + TTL - DRIFT;
  return { unlock, msLeft: () => validUntil - performance.now() };
}

/** @returns {Promise<boolean>} whether the appointment was made */
export async function book(slot, patient, calendar) {
  const lock = await lockSlot(slot);
  if (!lock) return false;
  try {
    if (!(await calendar.isFree(slot))) return false;
    const ms = lock.msLeft();
    if (ms < 1000) return false;
    await calendar.put(slot, patient, { timeout: ms - 500 });
    return true;
  } finally {
    await lock.unlock();
  }
}
