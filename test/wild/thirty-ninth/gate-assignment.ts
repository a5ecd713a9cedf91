import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClientPool, WatchError } from 'redis';

const LOCK_MS = 8_000;

const pool = await createClientPool({ url: process.env.REDIS_URL }, { minimum: 2, maximum: 10 })
  .on('error', (err) => console.error('redis pool', err))
  .connect();

interface Flight {
  number: string;
  day: string;
  onBlock: number;
  offBlock: number;
}

interface Stay {
  gate: string;
  from: number;
  to: number;
}

interface Entry {
  key: string;
  field: string;
  value: string;
}

export class GateLockLost extends Error {}

async function lock(key: string): Promise<string> {
  const token = randomUUID();
  for (let attempt = 0; attempt < 40; attempt++) {
    const reply = await pool.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: LOCK_MS },
    });
    if (reply === 'OK') return token;
    await sleep(75 + Math.random() * 75);
  }
  throw new Error(`${key} is busy`);
}

// writes the entry (if any) and gives the lock back
async function settle(lockKey: string, token: string, entry?: Entry): Promise<boolean> {
  return pool.execute(async (client) => {
    await client.watch(lockKey);
    if ((await client.get(lockKey)) !== token) {
      await client.unwatch();
      return false;
    }
    const tx = client.multi();
    if (entry) tx.hSet(entry.key, entry.field, entry.value);
    tx.del(lockKey);
    try {
      await tx.exec();
      return true;
    } catch (err) {
      if (err instanceof WatchError) return false;
      throw err;
    }
  });
}

export async function assignGate(
  terminal: string,
  gates: string[],
  flight: Flight,
): Promise<string | null> {
  const lockKey = `lock:gates:${terminal}`;
  const planKey = `gates:${terminal}`;
  const field = `${flight.number}@${flight.day}`;
  const token = await lock(lockKey);
  try {
    const plan = await pool.hGetAll(planKey);
    const known = plan[field];
    if (known) {
      await settle(lockKey, token);
      return (JSON.parse(known) as Stay).gate;
    }
    const stays = Object.values(plan).map((raw) => JSON.parse(raw) as Stay);
    const gate = gates.find((g) =>
      stays.every((s) => s.gate !== g || s.to <= flight.onBlock || s.from >= flight.offBlock),
    );
    if (!gate) {
      await settle(lockKey, token);
      return null;
    }
    const stay: Stay = { gate, from: flight.onBlock, to: flight.offBlock };
    const ok = await settle(lockKey, token, {
      key: planKey,
      field,
      value: JSON.stringify(stay),
    });
    if (!ok) throw new GateLockLost(terminal);
    return gate;
  } catch (err) {
    await settle(lockKey, token).catch(() => undefined);
    throw err;
  }
}
