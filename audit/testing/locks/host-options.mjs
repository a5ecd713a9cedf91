import { Redis } from 'ioredis';

export class Locker {
  constructor(options) {
    this.redis = new Redis({ ...options.redis, lazyConnect: false });
    this.redis.on('error', () => {});
    this.ttl = options.ttl ?? 5_000;
  }

  async acquire(key) {
    return (await this.redis.set(key, 'taken', 'PX', this.ttl, 'NX')) === 'OK';
  }

  async release(key) {
    await this.redis.del(key);
  }
}
