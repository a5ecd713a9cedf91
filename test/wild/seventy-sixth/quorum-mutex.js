'use strict';

/*
 * A small Redlock, written out step by step. Give it an odd number of *independent* masters (no
 * replicas of each other), each with `appendfsync always`, so that a restart forgets no lock.
 *
 * What you get: normally only one process works on a resource. What you do not get: protection
 * from a process that sleeps through its own deadline. Use it for jobs that may be repeated.
 */

const crypto = require('crypto');
const Redis = require('ioredis');

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const now = () => Number(process.hrtime.bigint() / 1000000n);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function within(ms, promise) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

function connect(urls) {
  return urls.map((url) => {
    const client = new Redis(url, {
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
    });
    client.on('error', (err) => console.warn(`lock node ${url}: ${err.message}`));
    return client;
  });
}

class QuorumMutex {
  constructor(clients, { nodeTimeout = 100, tries = 5, driftFactor = 0.01 } = {}) {
    if (clients.length < 3 || clients.length % 2 === 0) {
      throw new TypeError('expected 3, 5 or 7 independent nodes');
    }
    this.clients = clients;
    this.quorum = Math.floor(clients.length / 2) + 1;
    this.nodeTimeout = nodeTimeout;
    this.tries = tries;
    this.driftFactor = driftFactor;
  }

  async acquire(resource, ttl) {
    for (let i = 0; i < this.tries; i++) {
      const value = crypto.randomBytes(16).toString('hex');
      const start = now();
      const votes = await Promise.all(
        this.clients.map((c) =>
          within(this.nodeTimeout, c.set(resource, value, 'PX', ttl, 'NX')).then(
            (reply) => reply === 'OK',
            () => false
          )
        )
      );
      const validUntil = start + ttl - Math.ceil(ttl * this.driftFactor) - 2;
      if (votes.filter(Boolean).length >= this.quorum && now() < validUntil) {
        return { resource, value, validUntil };
      }
      // Also on the nodes that did not answer: they may have stored it all the same.
      await this.release({ resource, value });
      await pause(100 + Math.random() * 300);
    }
    return null;
  }

  async release({ resource, value }) {
    await Promise.allSettled(
      this.clients.map((c) => within(this.nodeTimeout, c.eval(UNLOCK, 1, resource, value)))
    );
  }

  /** Resolves with { ran: false } when the resource is busy. */
  async run(resource, ttl, job) {
    const lock = await this.acquire(resource, ttl);
    if (!lock) return { ran: false };

    const ctl = new AbortController();
    const timer = setTimeout(
      () => ctl.abort(new Error(`time for ${resource} is up`)),
      Math.max(0, lock.validUntil - now())
    );
    try {
      return { ran: true, result: await job(ctl.signal) };
    } finally {
      clearTimeout(timer);
      await this.release(lock);
    }
  }
}

module.exports = { QuorumMutex, connect };

// Every warehouse gets one snapshot row per day (primary key: warehouse + day). Doing it twice
// writes the same row twice.
//
//   await mutex.run(`snapshot:${wh}:${day}`, 60000, async (signal) => {
//     const stock = await countStockAt(wh, endOfDay(day), { signal });
//     signal.throwIfAborted();
//     await db('snapshots').insert({ wh, day, stock }).onConflict(['wh', 'day']).merge();
//   });
