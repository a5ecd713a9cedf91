const { randomUUID } = require('node:crypto');
const { Redis } = require('ioredis');

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Of `host:port`, one for each server. */
module.exports = class Majority {
  constructor(...servers) {
    this.clients = servers.map((server) => {
      const [host, port] = server.split(':');
      return new Redis({ host, port: Number(port), commandTimeout: 300, maxRetriesPerRequest: 0 }).on(
        'error',
        () => {},
      );
    });
  }

  async acquire(resource, ttl) {
    const lock = { resource, token: randomUUID(), begun: performance.now(), ttl };
    const set = (client) => client.set(resource, lock.token, 'PX', ttl, 'NX').catch(() => null);
    const votes = (await Promise.all(this.clients.map(set))).filter((it) => it === 'OK').length;
    if (votes > this.clients.length / 2 && this.isValid(lock)) return lock;
    await this.release(lock);
    return null;
  }

  /** Its holder asks before each step. */
  isValid(lock) {
    return performance.now() - lock.begun < LEFT * lock.ttl - 2;
  }

  async release(lock) {
    lock.ttl = 0;
    await Promise.all(this.clients.map((it) => it.eval(RELEASE, 1, lock.resource, lock.token).catch(() => 0)));
  }
};

/** A tenth is kept for the clocks of the servers. */
const LEFT = 0.9;
