'use strict';

const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('redis', err));

const LOCK_SECONDS = 5;
const WINDOW_MS = 60_000;
const MAX_POSTS = 30;

class LockBusyError extends Error {}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Sliding window per social account: the partner network blocks the account
 * as soon as we send more than 30 posts a minute.
 */
async function tryTakeSlot(accountId) {
  const lockKey = `throttle:${accountId}:lock`;
  const windowKey = `throttle:${accountId}:window`;

  try {
    const locked = await client.set(lockKey, '1', { NX: true, EX: LOCK_SECONDS });
    if (!locked) {
      throw new LockBusyError(`throttle of ${accountId} is locked`);
    }

    const now = Date.now();
    await client.zRemRangeByScore(windowKey, 0, now - WINDOW_MS);
    const used = await client.zCard(windowKey);
    if (used >= MAX_POSTS) {
      return false;
    }

    await client.zAdd(windowKey, { score: now, value: `${now}-${randomUUID()}` });
    await client.expire(windowKey, 120);
    return true;
  } finally {
    await client.del(lockKey);
  }
}

async function takeSlot(accountId, timeoutMs = 90_000) {
  const deadline = Date.now() + timeoutMs;
  while (Date.now() < deadline) {
    try {
      if (await tryTakeSlot(accountId)) return;
      await sleep(1_000);
    } catch (err) {
      if (!(err instanceof LockBusyError)) throw err;
      await sleep(20 + Math.random() * 30);
    }
  }
  throw new Error(`no free slot for ${accountId} within ${timeoutMs} ms`);
}

async function publishPost(account, post) {
  await takeSlot(account.id);
  const res = await fetch(`${process.env.PARTNER_API}/accounts/${account.externalId}/posts`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${account.accessToken}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ text: post.text, clientId: post.id }),
  });
  if (!res.ok) throw new Error(`partner answered ${res.status}`);
  return res.json();
}

module.exports = { connect: () => client.connect(), publishPost };
