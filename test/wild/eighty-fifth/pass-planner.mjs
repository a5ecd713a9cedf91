import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const HOLD = `
local cur = redis.call('get', KEYS[1])
if cur == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
if cur then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

export function redisForElections(url) {
  return new Redis(url, { commandTimeout: 1_500, maxRetriesPerRequest: 1, enableOfflineQueue: false });
}

/**
 * One planner per ground station network books antenna time for upcoming passes.
 * passes: primary key (satellite, orbit), no two on one antenna overlap (exclusion constraint)
 */
export class PassPlanner {
  #until = 0;
  #stopping = new AbortController();
  #running = null;

  constructor({ redis, pool, predictor, logger, network, ttlMs = 9_000 }) {
    Object.assign(this, { redis, pool, predictor, logger, network, ttlMs });
    this.id = `${hostname()}:${process.pid}:${randomUUID()}`;
    this.key = `passes:leader:${network}`;
  }

  get leading() {
    return performance.now() < this.#until;
  }

  start() {
    this.#running ??= Promise.all([this.#loop(() => this.#campaign(), this.ttlMs / 3), this.#loop(() => this.#plan(), 20_000)]);
  }

  async stop() {
    this.#stopping.abort();
    await this.#running;
    this.#until = 0;
    await this.redis.eval(RESIGN, 1, this.key, this.id).catch((err) => {
      this.logger.warn({ err }, 'leadership left to expire');
    });
  }

  async #loop(step, everyMs) {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await step();
      } catch (err) {
        this.logger.error({ err, network: this.network }, 'planner step failed');
      }
      await sleep(everyMs * (0.9 + Math.random() * 0.2), undefined, { signal }).catch(() => {});
    }
  }

  async #campaign() {
    const sentAt = performance.now();
    const was = this.leading;
    const won = await this.redis.eval(HOLD, 1, this.key, this.id, this.ttlMs);
    this.#until = won === 1 ? sentAt + this.ttlMs * 0.85 : 0;
    if (was !== this.leading) this.logger.info({ leading: this.leading, network: this.network }, 'leadership changed');
  }

  async #plan() {
    if (!this.leading) return;
    const passes = await this.predictor.next(this.network, { hours: 6 });
    for (const pass of passes) {
      if (!this.leading || this.#stopping.signal.aborted) return;
      // booking and its order to the antenna are one statement; a pass that is booked stays as it is
      const { rowCount } = await this.pool.query(
        `with booked as (
           insert into passes (satellite, orbit, rise_at, set_at, antenna)
           values ($1, $2, $3, $4, $5) on conflict do nothing
           returning satellite, orbit, antenna
         )
         insert into antenna_orders (satellite, orbit, antenna)
         select satellite, orbit, antenna from booked`,
        [pass.satellite, pass.orbit, pass.riseAt, pass.setAt, pass.antenna],
      );
      if (rowCount) this.logger.info({ satellite: pass.satellite, orbit: pass.orbit }, 'pass booked');
    }
  }
}
