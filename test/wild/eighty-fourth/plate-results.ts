import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Consumer } from 'kafkajs';

const LEASE_MS = 12_000;

/** KEYS: lease, counter. ARGV: token, ttl. Returns the number of this ownership. */
const OPEN = `
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
return redis.call('INCR', KEYS[2])`;

const CLOSE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/** KEYS: plate. ARGV: ownership number, state, results as JSON. */
const WRITE = `
local seen = redis.call('HGET', KEYS[1], 'fence')
if seen and seen > ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'state', ARGV[2], 'results', ARGV[3])
return 1`;

export interface Well {
  readonly position: string;
  readonly absorbance: number;
}

export class PlateBusyError extends Error {}
export class SupersededError extends Error {}

/** Keeps the state of assay plates; several analysers may report on the same plate. */
export class PlateResults {
  constructor(private readonly redis: Redis) {}

  /** Runs `work` with a fresh ownership number of the plate. */
  async own<T>(plateId: string, work: (fence: number) => Promise<T>): Promise<T> {
    const lease = `{plate:${plateId}}:lease`;
    const token = randomUUID();
    const fence = (await this.redis.eval(OPEN, 2, lease, `{plate:${plateId}}:fence`, token, LEASE_MS)) as
      | number
      | null;
    if (fence === null) throw new PlateBusyError(plateId);
    try {
      return await work(fence);
    } finally {
      await this.redis.eval(CLOSE, 1, lease, token).catch(() => undefined);
    }
  }

  /** Merges the wells of one reading into the plate. */
  async merge(plateId: string, wells: readonly Well[]): Promise<void> {
    const key = `{plate:${plateId}}:data`;
    await this.own(plateId, async (fence) => {
      const before = await this.redis.hget(key, 'results');
      const merged: Record<string, number> = before ? JSON.parse(before) : {};
      for (const well of wells) merged[well.position] = well.absorbance;
      const state = Object.keys(merged).length === 96 ? 'complete' : 'partial';
      const written = await this.redis.eval(WRITE, 1, key, String(fence), state, JSON.stringify(merged));
      if (written !== 1) throw new SupersededError(plateId);
    });
  }
}

/** Feeds readings from Kafka into the store; a thrown error makes kafkajs deliver again. */
export async function consumeReadings(consumer: Consumer, store: PlateResults): Promise<void> {
  await consumer.subscribe({ topic: 'analyser.readings' });
  await consumer.run({
    eachMessage: async ({ message }) => {
      if (!message.key || !message.value) return;
      const wells = JSON.parse(message.value.toString()) as Well[];
      await store.merge(message.key.toString(), wells);
    },
  });
}
