import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const UNLOCK = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`;

/** Deployments of one environment go one after the other. */
export class DeployLock {
  #redises;

  constructor(...urls) {
    this.#redises = urls.map((url) =>
      new Redis(url, { commandTimeout: 400, maxRetriesPerRequest: 0 }).on('error', () => {}),
    );
  }

  get #majority() {
    return Math.floor(this.#redises.length / 2) + 1;
  }

  async acquire(environment, ttl = 30_000) {
    const key = `deploy:${environment}`;
    const id = randomUUID();
    const since = performance.now();
    const results = await Promise.all(
      this.#redises.map((redis) => redis.set(key, id, 'PX', ttl, 'NX').catch((error) => error)),
    );
    const votes = results.filter((result) => result === 'OK').length;
    const expiresAt = since + ttl * 0.99 - 2;
    if (votes < this.#majority || performance.now() > expiresAt) return null;
    return {
      remaining: () => expiresAt - performance.now(),
      release: () =>
        Promise.all(this.#redises.map((redis) => redis.eval(UNLOCK, 1, key, id).catch(() => 0))).then(() => {}),
    };
  }
}
