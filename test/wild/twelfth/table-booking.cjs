'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');

const LOCK_MS = 20_000;
const DB_BUDGET_MS = 8_000;
const WAIT_MS = 2_500;

const RELEASE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

class TableBusy extends Error {}
class TableTaken extends Error {}

async function tryLock(client, key) {
  const token = randomUUID();
  const taken = await client.exists(key);
  if (taken) return null;
  await client.set(key, token, { expiration: { type: 'PX', value: LOCK_MS } });
  return token;
}

async function lockTable(client, key) {
  const until = Date.now() + WAIT_MS;
  for (;;) {
    const token = await tryLock(client, key);
    if (token) return token;
    if (Date.now() > until) throw new TableBusy('table is being booked, please try again');
    await sleep(50 + Math.random() * 100);
  }
}

/**
 * Books a table for one evening.
 *
 * @param {{ client: import('redis').RedisClientType,
 *           bookings: {
 *             overlapping(tableId: string, from: Date, to: Date, signal: AbortSignal): Promise<object[]>,
 *             insert(row: object, signal: AbortSignal): Promise<{ id: string }>,
 *           } }} deps
 */
function createBooking({ client, bookings }) {
  return async function book({ restaurantId, tableId, from, to, guest }) {
    const key = `booking:${restaurantId}:${tableId}:lock`;
    const token = await lockTable(client, key);
    try {
      const signal = AbortSignal.timeout(DB_BUDGET_MS);
      const clash = await bookings.overlapping(tableId, from, to, signal);
      if (clash.length > 0) throw new TableTaken(`table ${tableId} is taken at that time`);
      signal.throwIfAborted();
      return await bookings.insert({ restaurantId, tableId, from, to, guest }, signal);
    } finally {
      await client.eval(RELEASE, { keys: [key], arguments: [token] }).catch(() => {});
    }
  };
}

module.exports = { createBooking, TableBusy, TableTaken };
