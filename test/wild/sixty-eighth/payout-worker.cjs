'use strict';

const { randomBytes } = require('node:crypto');
const { getRedis } = require('./shared/redisPool.cjs');

const LOCK_TTL_MS = 60_000;
const TRANSFER_TIMEOUT_MS = 10_000;

const RELEASE_LUA = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

class PayoutLock {
  constructor({ logger, metrics }) {
    this.redis = getRedis('locks'); // ioredis
    this.logger = logger;
    this.metrics = metrics;
  }

  async acquire(sellerId) {
    const key = `payouts:seller:${sellerId}`;
    const token = randomBytes(16).toString('hex');
    const expiresAt = performance.now() + LOCK_TTL_MS;

    try {
      const reply = await this.redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
      if (reply !== 'OK') {
        return null;
      }
    } catch (err) {
      this.metrics.increment('payout.lock.redis_error');
      this.logger.warn({ err, sellerId }, 'lock store not reachable, payout is not held up');
    }

    return {
      key,
      token,
      hasTimeFor: (ms) => performance.now() + ms < expiresAt,
    };
  }

  async release(lock) {
    try {
      await this.redis.eval(RELEASE_LUA, 1, lock.key, lock.token);
    } catch (err) {
      this.logger.warn({ err, key: lock.key }, 'payout lock was not released');
    }
  }
}

/**
 * Pays out what sellers have earned. Runs on every worker each ten minutes, and on request from the
 * back office; the bank's API has no idempotency keys, so a seller is paid by one worker at a time.
 */
class PayoutWorker {
  constructor({ earnings, bank, logger, metrics }) {
    this.earnings = earnings;
    this.bank = bank;
    this.logger = logger;
    this.metrics = metrics;
    this.lock = new PayoutLock({ logger, metrics });
  }

  async run() {
    const sellers = await this.earnings.sellersWithOpenItems();
    const summary = { paid: 0, skipped: 0, failed: 0 };

    for (const sellerId of sellers) {
      try {
        const outcome = await this.payOut(sellerId);
        summary[outcome] += 1;
      } catch (err) {
        summary.failed += 1;
        this.logger.error({ err, sellerId }, 'payout failed');
      }
    }

    this.metrics.gauge('payout.paid', summary.paid);
    return summary;
  }

  async payOut(sellerId) {
    const lock = await this.lock.acquire(sellerId);
    if (!lock) {
      return 'skipped';
    }

    try {
      const items = await this.earnings.openItems(sellerId);
      const total = items.reduce((sum, item) => sum + item.amountCents, 0);
      if (total <= 0) {
        return 'skipped';
      }
      if (!lock.hasTimeFor(TRANSFER_TIMEOUT_MS * 2)) {
        throw new Error('not enough time left for a transfer');
      }

      // If we die between the two calls, items stay in "paying" and finance settles them by hand.
      await this.earnings.markPaying(items.map((item) => item.id));
      const transfer = await this.bank.transfer(
        { sellerId, amountCents: total, purpose: `Payout ${new Date().toISOString().slice(0, 10)}` },
        { timeoutMs: TRANSFER_TIMEOUT_MS },
      );
      await this.earnings.markPaid(items.map((item) => item.id), transfer.id);
      return 'paid';
    } finally {
      await this.lock.release(lock);
    }
  }
}

module.exports = { PayoutWorker, PayoutLock };
