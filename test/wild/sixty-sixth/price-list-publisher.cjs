'use strict';

const { randomBytes } = require('node:crypto');
const { performance } = require('node:perf_hooks');
const Redis = require('ioredis');

// Five independent Redis nodes, no replication among them. All run with
// appendfsync=always, so a restarted node still knows the locks it gave.
const NODE_TIMEOUT_MS = 80;
const CLOCK_DRIFT_FACTOR = 0.01;

const RELEASE_SCRIPT =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

class LockUnavailable extends Error {
  constructor(resource, votes, quorum) {
    super(`no quorum for ${resource} (${votes}/${quorum})`);
    this.name = 'LockUnavailable';
  }
}

class LeaseOver extends Error {
  constructor(resource) {
    super(`lease of ${resource} is over`);
    this.name = 'LeaseOver';
  }
}

function within(ms, promise) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

class QuorumMutex {
  /** @param {import('ioredis').Redis[]} nodes */
  constructor(nodes, { ttlMs = 8000, attempts = 4, log = console } = {}) {
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2) + 1;
    this.ttlMs = ttlMs;
    this.attempts = attempts;
    this.log = log;
  }

  async acquire(resource) {
    const key = `mutex:${resource}`;
    let votes = 0;
    for (let attempt = 1; attempt <= this.attempts; attempt += 1) {
      const token = randomBytes(20).toString('hex');
      const startedAt = performance.now();
      const answers = await Promise.all(
        this.nodes.map((node) =>
          within(NODE_TIMEOUT_MS, node.set(key, token, 'PX', this.ttlMs, 'NX')).then(
            (reply) => reply === 'OK',
            () => false,
          ),
        ),
      );
      votes = answers.filter(Boolean).length;
      const drift = Math.ceil(this.ttlMs * CLOCK_DRIFT_FACTOR) + 2;
      const validUntil = startedAt + this.ttlMs - drift;
      if (votes >= this.quorum && performance.now() < validUntil) {
        return { key, token, validUntil };
      }
      // Also on nodes which did not answer: the command may have got there.
      await this.release({ key, token });
      if (attempt < this.attempts) {
        await new Promise((r) => setTimeout(r, 100 + Math.random() * 300));
      }
    }
    throw new LockUnavailable(resource, votes, this.quorum);
  }

  async release({ key, token }) {
    const results = await Promise.allSettled(
      this.nodes.map((node) => within(NODE_TIMEOUT_MS * 2, node.eval(RELEASE_SCRIPT, 1, key, token))),
    );
    const failed = results.filter((r) => r.status === 'rejected').length;
    if (failed > 0) this.log.warn({ key, failed }, 'release did not reach all nodes, ttl will clean up');
  }

  /** The lease is never extended: the work has to fit in and must ask before it writes. */
  async runExclusive(resource, work) {
    const held = await this.acquire(resource);
    const controller = new AbortController();
    const left = () => held.validUntil - performance.now();
    const timer = setTimeout(() => controller.abort(new LeaseOver(resource)), left());
    try {
      return await work({
        signal: controller.signal,
        remainingMs: left,
        assertValid(needMs = 0) {
          if (left() <= needMs) throw new LeaseOver(resource);
        },
      });
    } finally {
      clearTimeout(timer);
      await this.release(held);
    }
  }
}

function nodesFromEnv(env = process.env) {
  const urls = (env.REDIS_NODES || '').split(',').map((u) => u.trim()).filter(Boolean);
  if (urls.length < 3 || urls.length % 2 === 0) throw new Error('REDIS_NODES: need an odd number of nodes, 3 or more');
  if (new Set(urls).size !== urls.length) throw new Error('REDIS_NODES: a node is listed twice');
  return urls.map((url) => {
    const node = new Redis(url, { maxRetriesPerRequest: 0, enableOfflineQueue: false });
    node.on('error', () => {}); // a missing vote, no more
    return node;
  });
}

/**
 * Builds the price list of a region and puts it into the bucket. The PUT carries
 * If-Match, so a publisher with an outdated base gets a 412.
 */
function createPublisher({ mutex, prices, bucket, log }) {
  return async function publishPriceList(region) {
    return mutex.runExclusive(`price-list:${region}`, async (lease) => {
      const current = await bucket.head(`prices/${region}.json`, { signal: lease.signal });
      const rows = await prices.forRegion(region, { signal: lease.signal });
      const body = JSON.stringify({ region, rows, generatedAt: new Date().toISOString() });

      lease.assertValid(500);
      const { etag } = await bucket.put(`prices/${region}.json`, body, {
        ifMatch: current.etag,
        signal: lease.signal,
      });
      log.info({ region, rows: rows.length, etag, leftMs: lease.remainingMs() }, 'price list published');
      return etag;
    });
  };
}

module.exports = { QuorumMutex, LockUnavailable, LeaseOver, nodesFromEnv, createPublisher };
