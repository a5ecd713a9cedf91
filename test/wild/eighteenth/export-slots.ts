import { randomUUID } from "node:crypto";
import type Redis from "iovalkey";

// One sorted set per pool: member = token of a holder, score = when its slot
// lapses. All times are the server's. (Redis 5+ / Valkey: TIME before a write.)
const TAKE = `
local t = redis.call("time")
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call("zremrangebyscore", KEYS[1], "-inf", now)
if not redis.call("zscore", KEYS[1], ARGV[1])
   and redis.call("zcard", KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call("zadd", KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
return 1`;

export class NoSlotError extends Error {}

export interface Slot {
  signal: AbortSignal;
  remainingMs(): number;
}

/** At most `size` exports at once over all workers; a crashed one's slot lapses by itself. */
export class ExportSlots {
  readonly #client: Redis;
  readonly #key: string;
  readonly #size: number;
  readonly #leaseMs: number;

  constructor(client: Redis, pool: string, size: number, leaseMs = 120_000) {
    this.#client = client;
    this.#key = `slots:${pool}`;
    this.#size = size;
    this.#leaseMs = leaseMs;
  }

  /** `work` has to be done, or to have stopped on the signal, within the lease. */
  async run<T>(work: (slot: Slot) => Promise<T>): Promise<T> {
    const token = randomUUID();
    const lost = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    try {
      const sentAt = performance.now();
      const taken = await this.#client.eval(TAKE, 1, this.#key, token, this.#size, this.#leaseMs);
      if (taken !== 1) throw new NoSlotError(`all ${this.#size} slots of ${this.#key} are in use`);

      // our clock starts before the server's did, and a second is kept in reserve
      const endsAt = sentAt + this.#leaseMs - 1_000;
      const remainingMs = () => Math.max(0, endsAt - performance.now());
      if (remainingMs() === 0) throw new NoSlotError(`${this.#key}: answer came too late`);
      timer = setTimeout(() => lost.abort(new Error(`slot of ${this.#key} lapsed`)), remainingMs());

      const result = await work({ signal: lost.signal, remainingMs });
      if (remainingMs() === 0) throw new Error(`slot of ${this.#key} lapsed before the work was done`);
      return result;
    } finally {
      clearTimeout(timer);
      // Only ever our own member. Also when TAKE failed: it may have been applied.
      await this.#client.zrem(this.#key, token).catch((err: Error) => {
        console.warn(`[slots] ${this.#key}: slot left to lapse: ${err.message}`);
      });
    }
  }

  async inUse(): Promise<number> {
    const [seconds] = await this.#client.time();
    return this.#client.zcount(this.#key, Number(seconds) * 1000, "+inf");
  }
}

export interface ExportJob {
  id: string;
  pages: number;
  writePage(page: number, signal: AbortSignal): Promise<void>;
}

export async function runExport(slots: ExportSlots, job: ExportJob): Promise<void> {
  await slots.run(async (slot) => {
    for (let page = 0; page < job.pages; page++) {
      if (slot.remainingMs() === 0) throw new Error(`export ${job.id} ran out of time at page ${page}`);
      await job.writePage(page, slot.signal);
    }
  });
}
