import { createClient, WatchError } from 'redis';
import { nanoid } from 'nanoid';

const base = createClient({ url: process.env.REDIS_URL });
base.on('error', (e) => console.error(e));

// WATCH is per connection
async function ownConnection<T>(fn: (c: typeof base) => Promise<T>): Promise<T> {
  const c = base.duplicate();
  c.on('error', () => {});
  await c.connect();
  try {
    return await fn(c as typeof base);
  } finally {
    c.destroy();
  }
}

const HOLD_MS = 12_000;

export async function sellRooms(
  allotment: string,
  rooms: number,
  pms: { free(a: string): Promise<number>; setFree(a: string, n: number, o: { timeoutMs: number }): Promise<void> },
): Promise<'sold' | 'sold-out' | 'busy' | 'timeout'> {
  return ownConnection(async (c) => {
    const key = `hotel:allotment:${allotment}`;
    const token = nanoid();
    const t = performance.now();
    const ok = await c.set(key, token, { NX: true, PX: HOLD_MS });
    if (ok !== 'OK') return 'busy';

    try {
      const free = await pms.free(allotment);
      if (free < rooms) return 'sold-out';
      if (performance.now() - t > HOLD_MS - 5_000) return 'timeout';
      await pms.setFree(allotment, free - rooms, { timeoutMs: 3_000 });
      return 'sold';
    } finally {
      await release(c, key, token);
    }
  });
}

async function release(c: typeof base, key: string, token: string): Promise<boolean> {
  const current = await c.get(key);
  if (current !== token) return false;
  await c.watch(key);
  try {
    await c.multi().del(key).exec();
    return true;
  } catch (e) {
    if (e instanceof WatchError) return false;
    throw e;
  }
}
