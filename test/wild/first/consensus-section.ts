import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

const DEL_IF = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/** What a node does not answer within this time, it has not answered. */
const PER_NODE_MS = 400;

function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('timed out')), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export class NotAcquired extends Error {}

export interface SectionOptions {
  ttl?: number;
  retries?: number;
}

/**
 * Runs `section` while a majority of the masters has our key. It must end when its signal aborts, which is before the
 * first of the keys expires.
 *
 * @param masters connected clients of independent masters, an odd number of them
 */
export async function consensusSection<T>(
  masters: RedisClientType[],
  name: string,
  section: (signal: AbortSignal) => Promise<T>,
  { ttl = 10_000, retries = 3 }: SectionOptions = {},
): Promise<T> {
  const majority = Math.floor(masters.length / 2) + 1;
  const drift = ttl * 0.01 + 5;

  const tryOnce = async (id: string): Promise<number> => {
    const began = performance.now();
    const votes = await Promise.allSettled(
      masters.map((master) => within(PER_NODE_MS, master.set(name, id, { PX: ttl, NX: true }))),
    );
    const granted = votes.filter((vote) => vote.status === 'fulfilled' && vote.value === 'OK').length;
    return granted >= majority ? ttl - drift - (performance.now() - began) : 0;
  };
  const undo = (id: string) =>
    Promise.allSettled(
      masters.map((master) => within(PER_NODE_MS, master.eval(DEL_IF, { keys: [name], arguments: [id] }))),
    );

  for (let left = retries; left >= 0; left--) {
    const id = randomUUID();
    const validity = await tryOnce(id);
    if (validity > 0) {
      const controller = new AbortController();
      const timer = setTimeout(() => controller.abort(), validity);
      try {
        return await section(controller.signal);
      } finally {
        clearTimeout(timer);
        await undo(id);
      }
    }
    await undo(id);
    await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 200));
  }
  throw new NotAcquired(name);
}
