'use strict';

const Redis = require('ioredis');
const crypto = require('node:crypto');

const SEAL_TTL = 15 * 60 * 1000;

const UNSEAL = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

class ArchiveSeal {
  /** @param {import('ioredis').Redis} redis */
  constructor(redis = new Redis(process.env.ARCHIVE_REDIS)) {
    this.redis = redis;
  }

  async acquire(shelf, waitMs = 20000) {
    const key = `archive:${shelf}:seal`;
    const seal = crypto.randomBytes(16); // 16 raw bytes, half the memory of hex
    const stop = Date.now() + waitMs;
    do {
      const asked = performance.now();
      const ok = await this.redis.set(key, seal, 'PX', SEAL_TTL, 'NX');
      if (ok === 'OK') return { key, seal, goodUntil: asked + SEAL_TTL };
      await new Promise((r) => setTimeout(r, 300 + 200 * Math.random()));
    } while (Date.now() < stop);
    throw Object.assign(new Error(`shelf ${shelf} is sealed`), { code: 'ESEALED' });
  }

  async release(hold) {
    await this.redis.eval(UNSEAL, 1, hold.key, hold.seal.toString('hex'));
  }

  async append(shelf, entry, disk) {
    const hold = await this.acquire(shelf);
    try {
      const index = await disk.readIndex(shelf);
      index.push({ ...entry, no: index.length + 1 });
      if (performance.now() > hold.goodUntil - 60000) throw new Error('seal about to expire');
      await disk.writeIndex(shelf, index, { timeout: 30000 });
    } finally {
      await this.release(hold);
    }
  }
}

module.exports = { ArchiveSeal };
