'use strict';

const { randomUUID } = require('node:crypto');
const { redis } = require('./db.js');

const HOLD_MS = 10 * 60_000;
const PAY_MS = 3 * 60_000;

redis.defineCommand('holdSeats', {
  lua: `
    for _, key in ipairs(KEYS) do
      local owner = redis.call('GET', key)
      if owner and owner ~= ARGV[1] then return 0 end
    end
    for _, key in ipairs(KEYS) do
      redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
    end
    return 1`,
});

redis.defineCommand('moveSeats', {
  lua: `
    for _, key in ipairs(KEYS) do
      if redis.call('GET', key) ~= ARGV[1] then return 0 end
    end
    local ttl = tonumber(ARGV[3])
    for _, key in ipairs(KEYS) do
      if ttl > 0 then
        redis.call('SET', key, ARGV[2], 'PX', ttl)
      else
        redis.call('SET', key, ARGV[2])
      end
    end
    return 1`,
});

redis.defineCommand('dropSeats', {
  lua: `
    local n = 0
    for _, key in ipairs(KEYS) do
      if redis.call('GET', key) == ARGV[1] then n = n + redis.call('DEL', key) end
    end
    return n`,
});

function keysOf(showId, seats) {
  if (seats.length === 0) throw new RangeError('no seats given');
  return seats.map((seat) => `{show:${showId}}:seat:${seat}`);
}

async function hold(showId, seats, cartId) {
  const keys = keysOf(showId, seats);
  return (await redis.holdSeats(keys.length, ...keys, `cart:${cartId}`, HOLD_MS)) === 1;
}

async function abandon(showId, seats, cartId) {
  const keys = keysOf(showId, seats);
  return redis.dropSeats(keys.length, ...keys, `cart:${cartId}`);
}

// Authorises only; the caller captures once the order row is written.
async function checkout(showId, seats, cartId, cents, gateway) {
  const keys = keysOf(showId, seats);
  const move = (from, to, ttl) => redis.moveSeats(keys.length, ...keys, from, to, ttl);

  const attempt = randomUUID();
  if ((await move(`cart:${cartId}`, `paying:${attempt}`, PAY_MS)) !== 1) {
    return { ok: false, reason: 'hold-expired' };
  }

  let auth;
  try {
    auth = await gateway.authorize({ cents, idempotencyKey: attempt, timeoutMs: 20_000 });
  } catch (err) {
    await move(`paying:${attempt}`, `cart:${cartId}`, HOLD_MS).catch(() => {});
    throw err;
  }

  if ((await move(`paying:${attempt}`, `sold:${attempt}`, 0)) !== 1) {
    await gateway.cancel(auth.id);
    return { ok: false, reason: 'hold-expired' };
  }
  return { ok: true, attempt, authId: auth.id };
}

module.exports = { hold, abandon, checkout };
