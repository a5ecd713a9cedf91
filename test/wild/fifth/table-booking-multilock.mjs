import Redis from 'iovalkey';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

// Large parties need several tables at once. All of them are locked, in a fixed order, before
// we look whether they are free.

const valkey = new Redis(process.env.VALKEY_URL ?? 'redis://localhost:6379', { commandTimeout: 1_500 });
valkey.on('error', (err) => console.error('booking valkey:', err.message));

const TTL_MS = 12_000;
const RESERVE_MS = 1_500;

const UNLOCK = `
local n = 0
for i, key in ipairs(KEYS) do
  if redis.call('get', key) == ARGV[1] then
    n = n + redis.call('del', key)
  end
end
return n`;

const lockKey = (restaurant, slot, table) => `lock:${restaurant}:${slot}:table:${table}`;

async function tryLock(keys, token) {
  for (const key of keys) {
    const reply = await valkey.set(key, token, 'PX', TTL_MS, 'NX');
    if (reply !== 'OK') {
      await valkey.del(...keys);
      return false;
    }
  }
  return true;
}

export async function lockTables(restaurant, slot, tables, { tries = 10 } = {}) {
  const keys = [...new Set(tables)].sort().map((t) => lockKey(restaurant, slot, t));
  const token = randomUUID();

  for (let i = 0; i < tries; i++) {
    const asked = performance.now();
    if (await tryLock(keys, token)) {
      const endsAt = asked + TTL_MS - RESERVE_MS;
      return {
        msLeft: () => endsAt - performance.now(),
        async release() {
          await valkey
            .eval(UNLOCK, keys.length, ...keys, token)
            .catch((err) => console.warn('tables not unlocked', keys, err.message));
        },
      };
    }
    await sleep(100 + Math.random() * 200);
  }
  return null;
}

const DB_MS = 2_500;

export class TableTaken extends Error {
  constructor(table) {
    super(`table ${table} is taken`);
    this.table = table;
  }
}

/** fastify route: POST /restaurants/:id/bookings */
export function bookingRoute(db) {
  return async (request, reply) => {
    const { id } = request.params;
    const { slot, tables, guest } = request.body;

    const lock = await lockTables(id, slot, tables);
    if (!lock) return reply.code(423).send({ error: 'somebody is booking these tables right now' });

    try {
      const taken = await db.takenTables(id, slot, { timeoutMs: DB_MS });
      for (const table of tables) {
        if (taken.has(table)) throw new TableTaken(table);
      }
      if (lock.msLeft() < DB_MS) return reply.code(503).send({ error: 'try again' });
      const booking = await db.insertBooking({ restaurant: id, slot, tables, guest }, { timeoutMs: DB_MS });
      return reply.code(201).send(booking);
    } catch (err) {
      if (err instanceof TableTaken) return reply.code(409).send({ error: err.message });
      throw err;
    } finally {
      await lock.release();
    }
  };
}
