'use strict';

const crypto = require('node:crypto');
const Redis = require('ioredis');

const redis = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379');
const LOCK_TTL_SEC = Number(process.env.PAYOUT_LOCK_TTL_SEC || 120);

const RELEASE_LUA =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

// locks we have at the moment: key -> token
const held = new Map();

async function lock(key) {
  // reentrant, so that helpers can take the lock again without deadlocking on ourselves
  if (held.has(key)) return true;

  const token = crypto.randomUUID();
  const reply = await redis.set(key, token, 'EX', LOCK_TTL_SEC, 'NX');
  if (reply !== 'OK') return false;

  held.set(key, token);
  return true;
}

async function unlock(key) {
  const token = held.get(key);
  if (!token) return;
  held.delete(key);
  await redis.eval(RELEASE_LUA, 1, key, token);
}

async function payMerchant({ ledger, bank, log }, merchantId) {
  const key = `payout:merchant:${merchantId}`;

  if (!(await lock(key))) {
    log.info(`[payout] ${merchantId} is being paid by another worker`);
    return { merchantId, status: 'busy' };
  }

  try {
    const due = await ledger.unpaidTotal(merchantId);
    if (due <= 0) return { merchantId, status: 'nothing-due' };

    const transfer = await bank.transfer({ to: merchantId, amount: due, currency: 'EUR' });
    await ledger.markPaid(merchantId, { transferId: transfer.id, amount: due });
    log.info(`[payout] ${merchantId} paid ${due} (${transfer.id})`);
    return { merchantId, status: 'paid', amount: due };
  } finally {
    await unlock(key).catch((e) => log.error(`[payout] unlock ${key}: ${e.message}`));
  }
}

/** cron, every hour */
async function runBatch(deps) {
  const results = [];
  for (const id of await deps.ledger.merchantsWithBalance()) {
    try {
      results.push(await payMerchant(deps, id));
    } catch (e) {
      deps.log.error(`[payout] ${id} failed: ${e.message}`);
    }
  }
  return results;
}

/** "Pay now" button in the back office, same process as the cron */
function payNowHandler(deps) {
  return async (req, res) => {
    const result = await payMerchant(deps, req.params.merchantId);
    res.statusCode = result.status === 'busy' ? 409 : 200;
    res.end(JSON.stringify(result));
  };
}

module.exports = { runBatch, payNowHandler };
