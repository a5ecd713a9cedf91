'use strict';

const { randomUUID } = require('node:crypto');

// Rotates the backups of a database cluster: keeps the newest, moves the rest
// to cold storage. Any of the ops boxes may be asked to do it.

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

/**
 * @param {{
 *   redis: import('ioredis').Redis,
 *   settings: { rotationMinutes(cluster: string): Promise<number> },
 *   storage: {
 *     list(cluster: string, signal: AbortSignal): Promise<{ name: string, takenAt: number }[]>,
 *     archive(cluster: string, name: string, signal: AbortSignal): Promise<void>,
 *   },
 *   keep?: number,
 * }} deps
 */
function createRotation({ redis, settings, storage, keep = 7 }) {
  async function lock(cluster) {
    const key = `backup:${cluster}:rotation`;
    const token = randomUUID();
    const got = await redis.setnx(key, token);
    if (got !== 1) return null;

    // large clusters are given more time
    const minutes = await settings.rotationMinutes(cluster);
    await redis.pexpire(key, minutes * 60_000);
    return { key, token, endsAt: Date.now() + minutes * 60_000 };
  }

  async function unlock({ key, token }) {
    await redis.eval(RELEASE, 1, key, token);
  }

  return async function rotate(cluster) {
    const held = await lock(cluster);
    if (!held) return { rotated: false, archived: [] };

    const archived = [];
    try {
      // stop well before the time is up
      const signal = AbortSignal.timeout(Math.floor((held.endsAt - Date.now()) * 0.7));
      const backups = await storage.list(cluster, signal);
      const old = backups.sort((a, b) => b.takenAt - a.takenAt).slice(keep);
      for (const { name } of old) {
        signal.throwIfAborted();
        await storage.archive(cluster, name, signal);
        archived.push(name);
      }
      return { rotated: true, archived };
    } finally {
      await unlock(held).catch((err) => console.warn(`backup-rotate: ${held.key}: ${err.message}`));
    }
  };
}

module.exports = { createRotation };
