'use strict';

const crypto = require('node:crypto');

const LOCK_MS = 5000;
const STATS_KEY = 'guild:chest:attempts';

const UNLOCK_LUA = [
  "if redis.call('get', KEYS[1]) == ARGV[1] then",
  "  return redis.call('del', KEYS[1])",
  'end',
  'return 0',
].join('\n');

/**
 * Opening the weekly guild chest. Any member may press the button, the
 * guild gets the gold once per week.
 *
 * @param {{ redis: import('ioredis').Redis, guilds: any, events: any, log: any }} deps
 */
module.exports = function createGuildChest({ redis, guilds, events, log }) {
  const lockKey = (guildId) => `guild:${guildId}:chest:lock`;

  async function lock(guildId) {
    const token = crypto.randomUUID();
    // lock and the attempts counter in one round trip
    const replies = await redis
      .multi()
      .set(lockKey(guildId), token, 'PX', LOCK_MS, 'NX')
      .hincrby(STATS_KEY, String(guildId), 1)
      .exec();

    if (!replies) {
      return null;
    }
    return token;
  }

  async function unlock(guildId, token) {
    try {
      await redis.eval(UNLOCK_LUA, 1, lockKey(guildId), token);
    } catch (err) {
      log.warn({ err, guildId }, 'chest unlock failed');
    }
  }

  async function open(guildId, playerId, week) {
    const token = await lock(guildId);
    if (!token) {
      return { ok: false, reason: 'BUSY' };
    }

    try {
      const guild = await guilds.get(guildId);
      if (guild.lastChestWeek === week) {
        return { ok: false, reason: 'ALREADY_OPENED' };
      }

      const gold = 500 + 50 * guild.level;
      await guilds.update(guildId, {
        treasury: guild.treasury + gold,
        lastChestWeek: week,
      });
      await events.publish('guild.chest.opened', { guildId, playerId, gold, week });

      return { ok: true, gold };
    } finally {
      await unlock(guildId, token);
    }
  }

  return { open };
};
