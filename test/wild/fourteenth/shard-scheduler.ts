import { setTimeout as sleep } from "node:timers/promises";
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";

export interface PlanStore {
  /** Highest term that was ever written. */
  currentTerm(): Promise<number>;
  workers(signal: AbortSignal): Promise<string[]>;
  query(sql: string, params: unknown[], signal: AbortSignal): Promise<{ rowCount: number }>;
}

const KEY = "{scheduler}:leader";
const TERM_KEY = "{scheduler}:term";
const TTL_MS = 12_000;
const RENEW_MS = 3_000;
const MARGIN_MS = 1_500;

const CAMPAIGN = `
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
local term = math.max(tonumber(redis.call('GET', KEYS[2]) or '0'), tonumber(ARGV[3])) + 1
redis.call('SET', KEYS[2], string.format('%d', term))
return term`;

const RENEW = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class ShardScheduler {
  readonly #id = randomUUID();

  constructor(
    private readonly redis: Redis,
    private readonly store: PlanStore,
    private readonly shards: number,
  ) {}

  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      try {
        const askedAt = performance.now();
        const floor = await this.store.currentTerm();
        const sentAt = performance.now();
        const term = Number(await this.redis.eval(CAMPAIGN, 2, KEY, TERM_KEY, this.#id, TTL_MS, floor));
        if (term > 0) {
          console.info("leading term %d (campaign took %d ms)", term, Math.round(performance.now() - askedAt));
          await this.#lead(term, sentAt + TTL_MS - MARGIN_MS, stop);
        }
      } catch (err) {
        console.error("scheduler round failed", err);
      }
      await sleep(RENEW_MS, undefined, { signal: stop }).catch(() => {});
    }
  }

  async #lead(term: number, until: number, stop: AbortSignal): Promise<void> {
    const over = new AbortController();
    const resign = () => over.abort(new Error(`term ${term} is over`));
    stop.addEventListener("abort", resign, { once: true });
    let expiry = setTimeout(resign, Math.max(0, until - performance.now()));

    const renewing = (async () => {
      while (!over.signal.aborted) {
        await sleep(RENEW_MS, undefined, { signal: over.signal }).catch(() => {});
        if (over.signal.aborted) return;
        const sentAt = performance.now();
        try {
          const kept = await this.redis.eval(RENEW, 1, KEY, this.#id, TTL_MS);
          if (kept !== 1) return resign();
          clearTimeout(expiry);
          expiry = setTimeout(resign, Math.max(0, sentAt + TTL_MS - MARGIN_MS - performance.now()));
        } catch (err) {
          console.warn("renewal of term %d failed", term, err);
        }
      }
    })();

    try {
      while (!over.signal.aborted) {
        const workers = await this.store.workers(over.signal);
        await this.#savePlan(term, workers, over.signal);
        await sleep(5_000, undefined, { signal: over.signal });
      }
    } catch (err) {
      if (!over.signal.aborted) throw err;
    } finally {
      resign();
      stop.removeEventListener("abort", resign);
      await renewing;
      clearTimeout(expiry);
      await this.redis.eval(RESIGN, 1, KEY, this.#id).catch((err) => console.warn("resign failed", err));
    }
  }

  async #savePlan(term: number, workers: string[], signal: AbortSignal): Promise<void> {
    const plan = Array.from({ length: this.shards }, (_, i) => workers[i % workers.length] ?? null);
    signal.throwIfAborted();
    const { rowCount } = await this.store.query(
      `UPDATE shard_plan SET plan = $1, term = $2, leader = $3
        WHERE id = 1 AND (term < $2 OR (term = $2 AND leader = $3))`,
      [JSON.stringify(plan), term, this.#id],
      signal,
    );
    if (rowCount === 0) throw new Error(`plan of term ${term} was refused, a newer one exists`);
  }
}
