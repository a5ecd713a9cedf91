import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const RELEASE = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

const nodes: Client[] = (process.env.REDIS_URLS ?? 'redis://localhost:6379').split(',').map((url) => {
  const client = createClient({ url: url.trim(), commandOptions: { timeout: 1_500 } });
  client.on('error', () => {});
  client.connect().catch(() => {});
  return client as Client;
});
const quorum = Math.floor(nodes.length / 2) + 1;

export interface RegionLock {
  /** ms for which the holder may act */
  validity: number;
  unlock(): Promise<void>;
}

export async function lockRegion(region: string, ttl = 4_000): Promise<RegionLock | null> {
  const key = `region:${region}`;
  const value = randomUUID();
  const votes = await Promise.all(
    nodes.map((node) =>
      node
        .set(key, value, { NX: true, PX: ttl })
        .then((reply) => (reply === 'OK' ? 1 : 0))
        .catch(() => 0),
    ),
  );
  const unlock = async () => {
    await Promise.allSettled(nodes.map((node) => node.eval(RELEASE, { keys: [key], arguments: [value] })));
  };
  const sum = votes.reduce<number>((a, b) => a + b, 0);
  if (sum < quorum) {
    await unlock();
    return null;
  }
  const drift = Math.round(ttl * 0.01) + 2;
  return { validity: ttl - drift, unlock };
}

/** Runs `task` with a signal that aborts when the validity is over. */
export async function inRegion<T>(region: string, task: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
  const lock = await lockRegion(region);
  if (!lock) return undefined;
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), lock.validity);
  try {
    return await task(controller.signal);
  } finally {
    clearTimeout(timer);
    await lock.unlock();
  }
}
