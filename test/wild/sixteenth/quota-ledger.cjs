'use strict';

const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

// Storage quota of a workspace. The usage lives in the accounts service, which
// has no atomic add, so reading and writing happen under a lock.
const TTL_MS = 12_000;
const BUDGET_MS = 8_000;
const ATTEMPTS = 10;
const RETRY_MS = 120;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class QuotaExceededError extends Error {}
class QuotaTimeoutError extends Error {}

async function connect() {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => console.error('redis', err.message));
  await client.connect();
  return client;
}

async function withWorkspace(client, workspaceId, fn) {
  const key = `lock:quota:${workspaceId}`;
  const token = randomUUID();

  let held = false;
  let startedAt = Date.now();
  for (let attempt = 0; attempt < ATTEMPTS && !held; attempt++) {
    if (attempt > 0) await sleep(RETRY_MS + Math.floor(Math.random() * RETRY_MS));
    startedAt = Date.now();
    const reply = await client.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: TTL_MS },
    });
    held = reply === 'OK';
  }

  try {
    const left = startedAt + BUDGET_MS - Date.now();
    if (left <= 0) throw new QuotaTimeoutError(`quota of ${workspaceId} timed out`);
    return await fn(AbortSignal.timeout(left));
  } finally {
    if (held) await release(client, key, token);
  }
}

async function release(client, key, token) {
  try {
    await client.eval(RELEASE, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn('quota lock left to its TTL', key, err.message);
  }
}

/**
 * @param {object} client  a connected node-redis client
 * @param {{ usage(id: string, o: { signal: AbortSignal }): Promise<{ bytes: number, limit: number }>,
 *           setUsage(id: string, bytes: number, o: { signal: AbortSignal }): Promise<void> }} accounts
 */
async function addUsage(client, accounts, workspaceId, bytes) {
  return withWorkspace(client, workspaceId, async (signal) => {
    const usage = await accounts.usage(workspaceId, { signal });
    const next = usage.bytes + bytes;
    if (next > usage.limit) {
      throw new QuotaExceededError(`${workspaceId} has ${usage.limit - usage.bytes} bytes left`);
    }
    signal.throwIfAborted();
    await accounts.setUsage(workspaceId, Math.max(0, next), { signal });
    return { bytes: Math.max(0, next), limit: usage.limit };
  });
}

module.exports = { addUsage, connect, withWorkspace, QuotaExceededError, QuotaTimeoutError };
