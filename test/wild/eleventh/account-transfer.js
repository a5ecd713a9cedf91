'use strict';

const { randomBytes } = require('crypto');
const Redis = require('ioredis');

const LOCK_TTL = 5000;

function connect(url = process.env.REDIS_URL || 'redis://localhost:6379') {
  const redis = new Redis(url, { lazyConnect: true });

  // both locks or none
  redis.defineCommand('lockBoth', {
    numberOfKeys: 2,
    lua: `
      if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return 0 end
      redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
      redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
      return 1`,
  });
  redis.defineCommand('unlockBoth', {
    numberOfKeys: 2,
    lua: `
      for i = 1, 2 do
        if redis.call('GET', KEYS[i]) == ARGV[1] then redis.call('DEL', KEYS[i]) end
      end
      return 1`,
  });
  redis.defineCommand('storeBalances', {
    numberOfKeys: 4,
    lua: `
      if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[1] then
        return 0
      end
      redis.call('SET', KEYS[3], ARGV[2])
      redis.call('SET', KEYS[4], ARGV[3])
      return 1`,
  });
  return redis;
}

function feeFor(cents) {
  return Math.max(10, Math.round(cents * 0.002));
}

/** Moves money from one account to another; the fee is paid by the sender. */
async function transfer(redis, from, to, cents) {
  if (from === to) throw new Error('same account');
  if (!Number.isSafeInteger(cents) || cents <= 0) throw new Error('bad amount');

  const locks = [`acct:${from}:lock`, `acct:${to}:lock`];
  const balances = [`acct:${from}:balance`, `acct:${to}:balance`];
  const token = randomBytes(16).toString('hex');

  let locked = false;
  for (let i = 0; i < 40 && !locked; i++) {
    if (i > 0) await new Promise((r) => setTimeout(r, 25 + Math.random() * 75));
    locked = (await redis.lockBoth(...locks, token, LOCK_TTL)) === 1;
  }
  if (!locked) throw new Error('accounts are busy, try again');

  try {
    const [a, b] = (await redis.mget(...balances)).map((v) => Number(v ?? 0));
    const total = cents + feeFor(cents);
    if (a < total) return { ok: false, reason: 'insufficient funds' };

    const stored = await redis.storeBalances(...locks, ...balances, token, a - total, b + cents);
    if (stored !== 1) throw new Error('locks expired, nothing was transferred');
    return { ok: true, balance: a - total };
  } finally {
    await redis.unlockBoth(...locks, token).catch((err) => console.warn('unlock:', err.message));
  }
}

module.exports = { connect, transfer };
