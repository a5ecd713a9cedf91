import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const CAMPAIGN = `
local current = redis.call('GET', KEYS[1])
if current == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if not current then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * One leader per region. Ask `isLeader()` before each thing only the leader may do; it does not
 * talk to Redis, it only looks at how long the last successful campaign is good for.
 */
export class RegionLeader extends EventEmitter {
  #client = createClient({ url: process.env.REDIS_URL });
  #id = randomUUID();
  #key;
  #ttl;
  #leadsUntil = 0;
  #wasLeader = false;
  #stopping = new AbortController();
  #loop;

  constructor(region, { ttl = 15_000 } = {}) {
    super();
    this.#key = `leader:${region}`;
    this.#ttl = ttl;
    this.#client.on('error', (err) => this.emit('warning', err));
  }

  async start() {
    await this.#client.connect();
    this.#loop = this.#run();
  }

  isLeader() {
    return performance.now() < this.#leadsUntil;
  }

  async #run() {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#campaign();
      this.#announce();
      await sleep(this.#ttl / 5, undefined, { signal }).catch(() => {});
    }
  }

  async #campaign() {
    const askedAt = performance.now();
    try {
      const won = await this.#client.eval(CAMPAIGN, {
        keys: [this.#key],
        arguments: [this.#id, String(this.#ttl)],
      });
      // a tenth is kept back for clocks that do not run at quite the same speed
      this.#leadsUntil = won === 1 ? askedAt + this.#ttl * 0.9 : 0;
    } catch (err) {
      // nothing is known: what we had runs out by itself
      this.emit('warning', err);
    }
  }

  #announce() {
    const leads = this.isLeader();
    if (leads !== this.#wasLeader) this.emit(leads ? 'elected' : 'deposed');
    this.#wasLeader = leads;
  }

  async stop() {
    this.#stopping.abort();
    await this.#loop;
    this.#leadsUntil = 0;
    this.#announce();
    await this.#client.eval(RESIGN, { keys: [this.#key], arguments: [this.#id] }).catch(() => {});
    await this.#client.close();
  }
}
