'use strict';
const { randomUUID } = require('node:crypto');
const { once, EventEmitter } = require('node:events');
const Redis = require('ioredis');

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('del', KEYS[1])
  redis.call('publish', KEYS[2], 'free')
  return 1
end
return 0`;

/**
 * Lock without polling: who has to wait is woken up by a message on release.
 */
class NotifyingLock {
  constructor(url = process.env.REDIS_URL) {
    this.redis = new Redis(url);
    this.sub = this.redis.duplicate();
    this.events = new EventEmitter();
    this.events.setMaxListeners(0);
    this.sub.on('message', (channel) => this.events.emit(channel));
    this.subscribed = new Map();
  }

  subscribe(channel) {
    if (!this.subscribed.has(channel)) {
      this.subscribed.set(channel, this.sub.subscribe(channel));
    }
    return this.subscribed.get(channel);
  }

  async acquire(name, ttl = 10000) {
    const key = `lock:${name}`;
    const channel = `lock:${name}:free`;
    const token = randomUUID();

    await this.subscribe(channel);

    for (;;) {
      const startedAt = performance.now();
      const reply = await this.redis.set(key, token, 'PX', ttl, 'NX');
      if (reply === 'OK') {
        return { key, channel, token, expiresAt: startedAt + ttl };
      }
      await once(this.events, channel);
    }
  }

  async release(lock) {
    return this.redis.eval(RELEASE, 2, lock.key, lock.channel, lock.token);
  }

  async use(name, ttl, fn) {
    const lock = await this.acquire(name, ttl);
    try {
      return await fn(lock);
    } finally {
      await this.release(lock);
    }
  }

  async close() {
    await Promise.all([this.redis.quit(), this.sub.quit()]);
  }
}

module.exports = { NotifyingLock };
