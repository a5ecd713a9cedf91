'use strict';

const { createClient } = require('redis');
const { randomUUID } = require('node:crypto');

// The legacy ERP falls over with more than 4 concurrent exports, over all our workers.
const LIMIT = Number(process.env.ERP_MAX_EXPORTS ?? 4);
const SLOT_MS = 120_000;
const MARGIN_MS = 10_000;
const KEY = 'erp:export:slots';

const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[3]) + 1000)
return 1
`;

let client;
async function redis() {
  if (!client) {
    client = createClient({ url: process.env.REDIS_URL });
    client.on('error', (e) => console.error('[erp-slots]', e.message));
    await client.connect();
  }
  return client;
}

async function giveBack(id) {
  try {
    await (await redis()).zRem(KEY, id);
  } catch (e) {
    console.warn('[erp-slots] could not give slot back, it lapses by itself:', e.message);
  }
}

async function takeSlot() {
  const id = randomUUID();
  const asked = performance.now();
  let ok;
  try {
    ok = await (await redis()).eval(TAKE, { keys: [KEY], arguments: [id, String(LIMIT), String(SLOT_MS)] });
  } catch (e) {
    await giveBack(id);
    throw e;
  }
  if (ok !== 1) return null;

  const usableMs = asked + SLOT_MS - MARGIN_MS - performance.now();
  if (usableMs <= 0) {
    await giveBack(id);
    return null;
  }
  return { id, usableMs };
}

/**
 * Streams one export out of the ERP. fetch with the signal closes the connection, and the ERP
 * drops the export as soon as its client is gone.
 */
async function exportTable(table, sink) {
  const slot = await takeSlot();
  if (!slot) return { started: false };

  const signal = AbortSignal.timeout(Math.floor(slot.usableMs));
  try {
    const res = await fetch(`${process.env.ERP_URL}/export/${encodeURIComponent(table)}`, { signal });
    if (!res.ok) throw new Error(`ERP answered ${res.status} for ${table}`);
    let bytes = 0;
    for await (const chunk of res.body) {
      bytes += chunk.length;
      await sink.write(chunk);
    }
    return { started: true, bytes };
  } finally {
    await giveBack(slot.id);
  }
}

module.exports = { exportTable, takeSlot, giveBack };
