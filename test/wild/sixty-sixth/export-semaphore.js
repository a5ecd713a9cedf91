'use strict';

const { randomUUID } = require('crypto');
const { createClient } = require('redis');

/*
 * Exports are heavy on the reporting replica, so only a few may run over all workers.
 * Holders are kept in a sorted set with the time at which they run out (Redis time).
 */
const ENTER = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local limit = tonumber(ARGV[2])
local ttl = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ttl, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ttl)
if redis.call('ZCARD', KEYS[1]) > limit then
  return 0
end
return 1
`;

const SLOT_TTL_MS = 5 * 60 * 1000;
const EXPORT_LIMIT_MS = 4 * 60 * 1000;
const RETRY_MS = 1000;

class SemaphoreTimeout extends Error {
  constructor(name, waitedMs) {
    super(`no free slot in ${name} after ${waitedMs} ms`);
    this.name = 'SemaphoreTimeout';
    this.retryable = true;
  }
}

class ExportSemaphore {
  constructor(client, { name = 'exports', limit = Number(process.env.EXPORT_CONCURRENCY || 4) } = {}) {
    this.client = client;
    this.key = `semaphore:${name}`;
    this.name = name;
    this.limit = limit;
  }

  static async fromEnv(options) {
    const client = createClient({ url: process.env.REDIS_URL || 'redis://localhost:6379' });
    client.on('error', (err) => console.error('[export-semaphore] redis', err.message));
    await client.connect();
    return new ExportSemaphore(client, options);
  }

  async tryEnter() {
    const ticket = randomUUID();
    const entered = await this.client.eval(ENTER, {
      keys: [this.key],
      arguments: [ticket, String(this.limit), String(SLOT_TTL_MS)],
    });
    return entered === 1 ? ticket : null;
  }

  async enter(maxWaitMs) {
    const startedAt = Date.now();
    for (;;) {
      const ticket = await this.tryEnter();
      if (ticket) return ticket;
      const waited = Date.now() - startedAt;
      if (waited >= maxWaitMs) throw new SemaphoreTimeout(this.name, waited);
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS + Math.random() * RETRY_MS));
    }
  }

  async leave(ticket) {
    await this.client.zRem(this.key, ticket);
  }

  async run(maxWaitMs, work) {
    const ticket = await this.enter(maxWaitMs);
    try {
      return await work(AbortSignal.timeout(EXPORT_LIMIT_MS));
    } finally {
      await this.leave(ticket).catch((err) => {
        console.warn(`[export-semaphore] ticket ${ticket} not returned: ${err.message}`);
      });
    }
  }
}

/**
 * Queue consumer for export requests.
 * @param {{ semaphore: ExportSemaphore, exporter: any, jobs: any, statsd?: any }} deps
 */
function createExportConsumer({ semaphore, exporter, jobs, statsd }) {
  return async function consume(message) {
    const job = await jobs.get(message.jobId);
    if (!job || job.state === 'finished') return { ack: true };

    const begun = Date.now();
    try {
      const file = await semaphore.run(2 * 60 * 1000, async (signal) => {
        if (statsd) statsd.timing('exports.slot_wait', Date.now() - begun);
        return exporter.export(job, { signal });
      });
      await jobs.finish(job.id, { url: file.url, rows: file.rows });
      if (statsd) statsd.increment('exports.finished');
      return { ack: true };
    } catch (err) {
      if (err.retryable) {
        return { ack: false, delaySeconds: 30 };
      }
      await jobs.fail(job.id, err.message);
      if (statsd) statsd.increment('exports.failed');
      return { ack: true };
    }
  };
}

module.exports = { ExportSemaphore, SemaphoreTimeout, createExportConsumer };
