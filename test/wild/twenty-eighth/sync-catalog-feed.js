import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

// Pushes a shop's catalogue to the marketplaces' feed API. The feed session is strictly
// one per shop: a second writer corrupts the upload. A full push takes from half a minute
// to half an hour, so the lock is kept alive by a heartbeat while the push goes on.

const LOCK_TTL_MS = 30_000;
const HEARTBEAT_MS = 10_000;
const REPLY_TIMEOUT_MS = 3_000;

const RELEASE_SCRIPT = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

async function within(ms, promise) {
  const timer = new AbortController();
  try {
    return await Promise.race([
      promise,
      sleep(ms, undefined, { signal: timer.signal }).then(() => {
        throw new Error(`redis did not answer within ${ms}ms`);
      }),
    ]);
  } finally {
    timer.abort();
  }
}

export class FeedLock {
  /** @param {import('redis').RedisClientType} client */
  constructor(client, shopId, { log = console } = {}) {
    this.client = client;
    this.key = `feed:${shopId}:lock`;
    this.token = randomUUID();
    this.log = log;
    this.lost = new AbortController();
    this.stop = new AbortController();
  }

  async acquire() {
    const reply = await within(
      REPLY_TIMEOUT_MS,
      this.client.set(this.key, this.token, { NX: true, PX: LOCK_TTL_MS }),
    );
    if (reply !== 'OK') return false;
    this.heartbeat = this.#keepAlive();
    return true;
  }

  async #keepAlive() {
    while (!this.stop.signal.aborted) {
      try {
        await sleep(HEARTBEAT_MS, undefined, { signal: this.stop.signal });
      } catch {
        return; // released
      }
      try {
        const reply = await within(
          REPLY_TIMEOUT_MS,
          this.client.set(this.key, this.token, { XX: true, PX: LOCK_TTL_MS }),
        );
        if (reply !== 'OK') throw new Error('lock has expired');
      } catch (err) {
        // One missed beat is enough to stop: there are still some 17s of TTL left to do so.
        this.log.error(`${this.key}: ${err.message}, stopping the push`);
        this.lost.abort(err);
        return;
      }
    }
  }

  get signal() {
    return this.lost.signal;
  }

  async release() {
    this.stop.abort();
    await this.heartbeat;
    try {
      await this.client.eval(RELEASE_SCRIPT, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      this.log.warn(`${this.key}: release failed (${err.message}), will expire`);
    }
  }
}

/**
 * @returns {Promise<{ pushed: number } | null>} null if another worker is pushing this shop
 */
export async function pushCatalogue(client, shopId, { catalogue, feedApi, log = console }) {
  const lock = new FeedLock(client, shopId, { log });
  if (!(await lock.acquire())) {
    log.info(`feed ${shopId}: push already running`);
    return null;
  }

  try {
    const session = await feedApi.open(shopId, { signal: lock.signal });
    let pushed = 0;
    for await (const page of catalogue.pages(shopId)) {
      lock.signal.throwIfAborted();
      await feedApi.append(session, page, { signal: lock.signal });
      pushed += page.length;
    }
    lock.signal.throwIfAborted();
    await feedApi.commit(session, { signal: lock.signal });
    log.info(`feed ${shopId}: ${pushed} products pushed`);
    return { pushed };
  } finally {
    await lock.release();
  }
}
