'use strict';

const { randomUUID } = require('crypto');
const Redis = require('ioredis');

const redis = new Redis(process.env.REDIS_URL || 'redis://localhost:6379');

const LOCK_TTL_MS = 60 * 1000;

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

/**
 * Locks an image while its thumbnails are made.
 * Returns the lock, or null when another worker is on it.
 */
async function lockImage(imageId) {
  const key = `thumbs:lock:${imageId}`;
  const token = randomUUID();
  const startedAt = performance.now();

  const created = await redis.setnx(key, token);
  if (created !== 1) {
    return null;
  }
  await redis.pexpire(key, LOCK_TTL_MS);

  return { key, token, expiresAt: startedAt + LOCK_TTL_MS };
}

async function unlockImage(lock) {
  return redis.eval(RELEASE_SCRIPT, 1, lock.key, lock.token);
}

/**
 * Makes all sizes of an image. Stops between two sizes when the lock gets too old.
 */
async function makeThumbnails(imageId, sizes, resize) {
  const lock = await lockImage(imageId);
  if (!lock) return { skipped: true, done: [] };

  const done = [];
  try {
    for (const size of sizes) {
      if (performance.now() >= lock.expiresAt) break;
      await resize(imageId, size);
      done.push(size);
    }
  } finally {
    await unlockImage(lock);
  }
  return { skipped: false, done };
}

module.exports = { lockImage, unlockImage, makeThumbnails };
