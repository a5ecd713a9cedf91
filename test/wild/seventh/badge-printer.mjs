import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

const LEASE = 10_000;

/** Conference desk: several kiosks, one printer. */
export default class BadgePrinter {
  #redis;

  constructor(redis = new Redis(process.env.REDIS_URL)) {
    this.#redis = redis;
    redis.defineCommand('freePrinter', {
      numberOfKeys: 1,
      lua: `
        local holder = tonumber(redis.call('GET', KEYS[1]))
        local mine = tonumber(ARGV[1])
        if holder == mine then
          redis.call('DEL', KEYS[1])
          return 1
        end
        return 0
      `,
    });
  }

  async print(printer, badge, spool) {
    const key = `printer:${printer}`;
    const token = randomUUID();
    const since = performance.now();

    const ok = await this.#redis.set(key, token, 'PX', LEASE, 'NX');
    if (ok === null) return { queued: false, retryIn: 1500 };

    try {
      const pdf = await badge.render();
      if (performance.now() - since > LEASE / 2) {
        return { queued: false, retryIn: 0 };
      }
      // rejects by itself after 3s
      await spool.send(printer, pdf, { timeout: 3000 });
      return { queued: true };
    } finally {
      await this.#redis.freePrinter(key, token);
    }
  }
}
