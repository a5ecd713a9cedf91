'use strict';

const Redis = require('ioredis');
const crypto = require('node:crypto');

// Locks both wallets of a transfer at once, or none. All keys share one hash tag so that the
// script is fine on the cluster, too (they live on one shard then).

const redis = new Redis({
  host: process.env.REDIS_HOST || '127.0.0.1',
  port: Number(process.env.REDIS_PORT || 6379),
  password: process.env.REDIS_PASSWORD || undefined,
  commandTimeout: 2000,
});
redis.on('error', (err) => console.error('[wallet-lock]', err.message));

redis.defineCommand('lockAll', {
  lua: `
    for i = 1, #KEYS do
      if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
    end
    for i = 1, #KEYS do
      redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
    end
    return 1
  `,
});

redis.defineCommand('unlockAll', {
  lua: `
    local n = 0
    for i = 1, #KEYS do
      if redis.call('GET', KEYS[i]) == ARGV[1] then
        n = n + redis.call('DEL', KEYS[i])
      end
    end
    return n
  `,
});

const LOCK_MS = 10000;
const TX_MS = 3000;
const SLACK_MS = 1000;

const keyOf = (walletId) => `{wallets}:lock:${walletId}`;

function unlock(keys, token) {
  return redis.unlockAll(keys.length, ...keys, token).catch((err) => {
    console.warn('[wallet-lock] unlock failed, waiting for expiry', keys.join(','), err.message);
  });
}

async function withWallets(ids, fn) {
  const keys = [...new Set(ids)].map(keyOf);
  const token = crypto.randomUUID();
  const start = performance.now();

  try {
    const got = await redis.lockAll(keys.length, ...keys, token, LOCK_MS);
    if (got !== 1) {
      const err = new Error('wallet busy');
      err.code = 'WALLET_BUSY';
      throw err;
    }
    const left = () => start + LOCK_MS - SLACK_MS - performance.now();
    return await fn(left);
  } finally {
    await unlock(keys, token); // no-op for keys that carry another token
  }
}

/**
 * @param {{ transaction: (stmts: Array<[string, unknown[]]>, o: { timeoutMs: number }) => Promise<void>,
 *           balance: (id: string, o: { timeoutMs: number }) => Promise<number> }} db
 */
async function transfer(db, from, to, cents) {
  if (from === to) throw new Error('same wallet');
  return withWallets([from, to], async (left) => {
    const have = await db.balance(from, { timeoutMs: TX_MS });
    if (have < cents) throw new Error('insufficient funds');

    // transaction_timeout on the server side, the commit is inside of it
    if (left() < TX_MS) throw new Error('too slow, transfer not started');
    await db.transaction(
      [
        ['UPDATE wallets SET cents = cents - $2 WHERE id = $1', [from, cents]],
        ['UPDATE wallets SET cents = cents + $2 WHERE id = $1', [to, cents]],
      ],
      { timeoutMs: TX_MS },
    );
  });
}

module.exports = { transfer, withWallets };
