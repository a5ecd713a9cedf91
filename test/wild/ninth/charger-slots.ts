import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

// Each charger is a semaphore of size 1 (double chargers get 2 one day). Members
// are sessions, scores are the times at which they lapse, by the clock of Redis.
const NOW = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
`;

const PLUG_IN = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

const KEEP = `${NOW}
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])`;

const LAPSE = 10_000;
const SLACK = 300;

export interface ChargerApi {
  setCurrent(charger: string, ampere: number): Promise<void>;
}

export class ChargingSession {
  readonly #client: RedisClientType;
  readonly #key: string;
  readonly #id: string;
  #until: number;
  #ended = false;
  #timer: NodeJS.Timeout | undefined;

  private constructor(client: RedisClientType, key: string, id: string, until: number) {
    this.#client = client;
    this.#key = key;
    this.#id = id;
    this.#until = until;
    this.#next();
  }

  static async start(client: RedisClientType, charger: string, limit = 1): Promise<ChargingSession | null> {
    const key = `charger:${charger}:sessions`;
    const id = randomUUID();
    const sent = performance.now();
    const reply = await client.eval(PLUG_IN, { keys: [key], arguments: [id, String(LAPSE), String(limit)] });
    return Number(reply) === 1 ? new ChargingSession(client, key, id, sent + LAPSE - SLACK) : null;
  }

  /** Whether this session may control the charger at this moment. */
  get active(): boolean {
    return !this.#ended && performance.now() < this.#until;
  }

  #next(): void {
    this.#timer = setTimeout(() => void this.#keep(), LAPSE / 3);
  }

  async #keep(): Promise<void> {
    const sent = performance.now();
    try {
      const added = await this.#client.eval(KEEP, { keys: [this.#key], arguments: [this.#id, String(LAPSE)] });
      // XX never adds, it moves the score: 0 is what we want to see
      if (Number(added) === 0) this.#until = sent + LAPSE - SLACK;
      else this.#ended = true;
    } catch (err) {
      console.warn(`${this.#key}: could not be prolonged`, err);
    }
    if (!this.#ended) this.#next();
  }

  async stop(): Promise<void> {
    this.#ended = true;
    clearTimeout(this.#timer);
    try {
      await this.#client.zRem(this.#key, this.#id);
    } catch (err) {
      console.warn(`${this.#key}: session will lapse`, err);
    }
  }
}

export async function charge(client: RedisClientType, api: ChargerApi, charger: string, plan: AsyncIterable<number>): Promise<boolean> {
  const session = await ChargingSession.start(client, charger);
  if (!session) return false;
  try {
    for await (const ampere of plan) {
      if (!session.active) throw new Error(`charger ${charger}: session lapsed`);
      await api.setCurrent(charger, ampere);
    }
    return true;
  } finally {
    await session.stop();
  }
}
