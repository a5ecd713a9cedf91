import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

// KEYS[1] lock, KEYS[2] queue
const TRY_ENTER = `
if redis.call('LINDEX', KEYS[2], 0) ~= ARGV[1] then return 0 end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
redis.call('LPOP', KEYS[2])
return 1`;

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;

const LEAVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/**
 * First come, first served lock. Waiters line up in a Redis list and only the
 * one in front may take the lock, so nobody is overtaken.
 */
export class FairLock {
  /**
   * @param {import('redis').RedisClientType} client
   * @param {{ ttl?: number, poll?: number, maxWait?: number }} [options]
   */
  constructor(client, { ttl = 15_000, poll = 100, maxWait = 60_000 } = {}) {
    this.client = client;
    this.ttl = ttl;
    this.poll = poll;
    this.maxWait = maxWait;
  }

  #keys(name) {
    return [`fair:{${name}}:lock`, `fair:{${name}}:queue`];
  }

  /** @returns {Promise<{ ticket: string, sentAt: number }>} */
  async #enter(name) {
    const keys = this.#keys(name);
    const ticket = randomUUID();
    const giveUpAt = performance.now() + this.maxWait;
    let entered = false;
    try {
      await this.client.rPush(keys[1], ticket);
      while (performance.now() < giveUpAt) {
        const sentAt = performance.now();
        const ok = await this.client.eval(TRY_ENTER, { keys, arguments: [ticket, String(this.ttl)] });
        if (ok === 1) {
          entered = true;
          return { ticket, sentAt };
        }
        await sleep(this.poll);
      }
      throw new Error(`gave up waiting for ${name}`);
    } finally {
      // step out of the line when we give up or an error gets in the way
      if (!entered) await this.client.lRem(keys[1], 0, ticket).catch(() => {});
    }
  }

  /**
   * @template T
   * @param {string} name
   * @param {(signal: AbortSignal) => Promise<T>} fn stops when the signal fires
   * @returns {Promise<T>}
   */
  async run(name, fn) {
    const { ticket, sentAt } = await this.#enter(name);
    const keys = this.#keys(name);
    const ac = new AbortController();
    const lose = () => ac.abort(new Error(`lock ${name} lost`));
    const safeMs = this.ttl * 0.85;
    let done = false;
    let deadline = setTimeout(lose, Math.max(0, sentAt + safeMs - performance.now()));

    const heartbeat = setInterval(async () => {
      const at = performance.now();
      try {
        const ok = await this.client.eval(RENEW, { keys, arguments: [ticket, String(this.ttl)] });
        if (done || ac.signal.aborted) return;
        if (ok !== 1) return lose();
        clearTimeout(deadline);
        deadline = setTimeout(lose, Math.max(0, at + safeMs - performance.now()));
      } catch (err) {
        console.warn('renewing %s failed: %s', name, err.message);
      }
    }, this.ttl / 4);

    try {
      return await fn(ac.signal);
    } finally {
      done = true;
      clearInterval(heartbeat);
      clearTimeout(deadline);
      await this.client
        .eval(LEAVE, { keys, arguments: [ticket] })
        .catch((err) => console.warn('%s is left to expire: %s', name, err.message));
    }
  }
}

// Example: migrations of one tenant's schema in the order they were requested
export async function migrateTenant(tenantId, migrate) {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => console.error('[redis]', err.message));
  await client.connect();
  try {
    const lock = new FairLock(client, { maxWait: 10 * 60_000 });
    await lock.run(`tenant:${tenantId}`, (signal) => migrate(tenantId, { signal }));
  } finally {
    await client.close();
  }
}
