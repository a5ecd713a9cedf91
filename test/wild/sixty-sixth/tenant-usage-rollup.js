'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock4');

const ROLLUP_LOCK = 'locks:usage-rollup';
const ROLLUP_TTL_MS = 60000;
const QUERY_TIMEOUT_MS = 2000;

function createRedlock(env = process.env) {
  const client = new Redis(env.REDIS_URL || 'redis://127.0.0.1:6379');
  client.on('error', (err) => console.error('redis:', err.message));
  const redlock = new Redlock([client], {
    driftFactor: 0.01,
    retryCount: 0, // another instance has it: skip this round
  });
  redlock.on('clientError', (err) => console.error('redlock:', err.message));
  return redlock;
}

/**
 * Every five minutes: moves the raw usage counters of each tenant (about 40 of them)
 * into the monthly totals which billing reads.
 */
class TenantUsageRollup {
  constructor({ redlock, tenants, usage, log, metrics }) {
    this.redlock = redlock;
    this.tenants = tenants;
    this.usage = usage;
    this.log = log;
    this.metrics = metrics;
  }

  async run() {
    let lock;
    try {
      lock = await this.redlock.lock(ROLLUP_LOCK, ROLLUP_TTL_MS);
    } catch (err) {
      if (err.name === 'LockError') {
        this.log.debug('usage rollup: locked by another instance');
        return false;
      }
      throw err;
    }

    const startedAt = Date.now();
    try {
      const active = await this.tenants.listActive({ timeout: QUERY_TIMEOUT_MS });
      this.log.info(`usage rollup: ${active.length} tenants`);

      active.forEach(async (tenant) => {
        try {
          await this.rollupTenant(tenant);
        } catch (err) {
          this.metrics.increment('usage_rollup.tenant_failed', { tenant: tenant.id });
          this.log.error(`usage rollup: tenant ${tenant.id}: ${err.message}`);
        }
      });

      this.metrics.timing('usage_rollup.duration', Date.now() - startedAt);
      return true;
    } finally {
      await lock.unlock().catch((err) => {
        this.log.warn(`usage rollup: unlock: ${err.message}`);
      });
    }
  }

  async rollupTenant(tenant) {
    const since = await this.usage.watermark(tenant.id, { timeout: QUERY_TIMEOUT_MS });
    const raw = await this.usage.sumSince(tenant.id, since, { timeout: QUERY_TIMEOUT_MS });
    if (raw.count === 0) return;

    // total and watermark in one statement
    await this.usage.addToMonth(
      tenant.id,
      { month: raw.lastAt.slice(0, 7), units: raw.units, watermark: raw.lastAt },
      { timeout: QUERY_TIMEOUT_MS },
    );
    this.metrics.gauge('usage_rollup.units', raw.units, { tenant: tenant.id });
  }
}

function schedule(rollup, everyMs = 5 * 60 * 1000) {
  const timer = setInterval(() => {
    rollup.run().catch((err) => rollup.log.error(`usage rollup: ${err.stack}`));
  }, everyMs);
  return () => clearInterval(timer);
}

module.exports = { TenantUsageRollup, createRedlock, schedule };
