import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { config } from '../config/index.mjs';

const HOUR = 3_600_000;

const CHECK_OUT = `
if not redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
  return 0
end
local fence = redis.call('incr', KEYS[2])
redis.call('pexpire', KEYS[2], ARGV[3])
return fence`;

const CHECK_IN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class StoryBusyError extends Error {}
export class StoryOvertakenError extends Error {
  constructor(storyId) {
    super(`story ${storyId} was taken over by another desk`);
  }
}

/**
 * stories (id, body jsonb, fence bigint not null default 0)
 *
 * @param {object} deps
 * @param {import('ioredis').Redis} deps.redis
 * @param {import('pg').Pool} deps.pool
 */
export function createStoryCheckout({ redis, pool, logger, metrics }) {
  const { lockMs = 30_000, waitMs = 4_000, idleMs = 24 * HOUR } = config.storyCheckout ?? {};

  async function checkOut(storyId, token) {
    const keys = [`story:{${storyId}}:lock`, `story:{${storyId}}:fence`];
    const giveUpAt = Date.now() + waitMs;
    for (;;) {
      const fence = await redis.eval(CHECK_OUT, 2, ...keys, token, lockMs, idleMs);
      if (fence > 0) return fence;
      if (Date.now() > giveUpAt) {
        metrics.inc('story_checkout_busy');
        throw new StoryBusyError(`story ${storyId} is being edited`);
      }
      await sleep(100 + Math.random() * 100);
    }
  }

  async function checkIn(storyId, token) {
    try {
      await redis.eval(CHECK_IN, 1, `story:{${storyId}}:lock`, token);
    } catch (err) {
      logger.warn({ err, storyId }, 'checkout left to expire');
    }
  }

  /** edit(body) returns the new body, or a promise of it. */
  return async function editStory(storyId, edit) {
    const token = randomUUID();
    try {
      const fence = await checkOut(storyId, token);
      logger.debug({ storyId, fence }, 'checked out');

      const claimed = await pool.query(
        'update stories set fence = $2 where id = $1 and fence < $2 returning body',
        [storyId, fence],
      );
      if (claimed.rowCount === 0) throw new StoryOvertakenError(storyId);

      const body = await edit(claimed.rows[0].body);

      const saved = await pool.query(
        'update stories set body = $3, edited_at = now() where id = $1 and fence = $2',
        [storyId, fence, JSON.stringify(body)],
      );
      if (saved.rowCount === 0) throw new StoryOvertakenError(storyId);
      metrics.inc('story_edits');
      return body;
    } finally {
      await checkIn(storyId, token);
    }
  };
}
