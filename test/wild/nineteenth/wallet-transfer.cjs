"use strict";
const { randomUUID } = require("node:crypto");
const { performance } = require("node:perf_hooks");
const { setTimeout: sleep } = require("node:timers/promises");
const { createClient } = require("redis");

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const TTL_MS = 30_000;
const WAIT_MS = 8_000;
const MARGIN_MS = 250;

class WalletBusy extends Error {}

async function openRedis() {
  const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
  client.on("error", (err) => console.error("redis:", err));
  await client.connect();
  return client;
}

async function release(client, lock) {
  await client
    .eval(RELEASE, { keys: [lock.key], arguments: [lock.token] })
    .catch((err) => console.warn(`release ${lock.key}:`, err));
}

async function acquire(client, walletId) {
  const lock = { key: `wallet:${walletId}:lock`, token: randomUUID(), deadline: 0 };
  const giveUpAt = performance.now() + WAIT_MS;
  try {
    for (;;) {
      const sentAt = performance.now();
      if ((await client.set(lock.key, lock.token, { NX: true, PX: TTL_MS })) === "OK") {
        lock.deadline = sentAt + TTL_MS - MARGIN_MS;
        return lock;
      }
      if (performance.now() > giveUpAt) throw new WalletBusy(walletId);
      await sleep(50 + Math.random() * 100);
    }
  } catch (err) {
    await release(client, lock);
    throw err;
  }
}

/**
 * Moves money between two wallets, both locked, always in ascending order of their ids.
 *
 * @param {object} ctx redis client and wallet store
 * @param {string} fromId wallet id, such as "w_7Q2MB41X"
 * @param {string} toId wallet id
 * @param {number} cents
 */
async function transfer({ client, store }, fromId, toId, cents) {
  if (fromId === toId) throw new Error("source and target are the same wallet");
  const ids = [fromId, toId].sort((a, b) => a - b);

  const first = await acquire(client, ids[0]);
  try {
    const second = await acquire(client, ids[1]);
    try {
      const deadline = Math.min(first.deadline, second.deadline);
      const signal = AbortSignal.timeout(Math.max(0, Math.floor(deadline - performance.now())));
      if ((await store.balance(fromId, { signal })) < cents) throw new Error("insufficient funds");
      signal.throwIfAborted();
      // a single database transaction
      await store.move(fromId, toId, cents, { signal });
    } finally {
      await release(client, second);
    }
  } finally {
    await release(client, first);
  }
}

module.exports = { openRedis, transfer, WalletBusy };
