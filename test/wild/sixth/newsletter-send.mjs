import { randomUUID } from 'node:crypto';

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Simple lock for the newsletter workers.
 *
 *   const lock = new NewsletterLock(client);
 *   await lock.run('weekly', () => sendWeekly());
 */
export class NewsletterLock {
  constructor(client, { prefix = 'newsletter', ttl = 30_000, retryDelay = 250, retries = 20 } = {}) {
    this.client = client;
    this.prefix = prefix;
    this.ttl = ttl;
    this.retryDelay = retryDelay;
    this.retries = retries;
  }

  key(name) {
    return `${this.prefix}:lock:${name}`;
  }

  async acquire(name) {
    const token = randomUUID();
    for (let i = 0; i <= this.retries; i++) {
      const res = await this.client.set(this.key(name), token, {
        condition: 'NX',
        expiration: { type: 'PX', value: this.ttl },
      });
      if (res === 'OK') return token;
      await sleep(this.retryDelay);
    }
    return null;
  }

  // Only removes the lock if it is still ours.
  async release(name, token) {
    const current = await this.client.get(this.key(name));
    if (current === token) {
      await this.client.del(this.key(name));
      return true;
    }
    return false;
  }

  async run(name, fn) {
    const token = await this.acquire(name);
    if (!token) throw new Error(`newsletter "${name}" is already being sent`);
    try {
      return await fn();
    } finally {
      await this.release(name, token);
    }
  }
}
