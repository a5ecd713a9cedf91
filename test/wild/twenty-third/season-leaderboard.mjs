import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const TTL_MS = 20_000;
const RENEW_MS = 6_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

// The result lives in the same Redis as the lock, under the same hash tag. It is
// stored only while the lock still carries the token under which it was computed.
const PUBLISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2])
redis.call('SET', KEYS[3], ARGV[3])
return 1`;

/**
 * Rebuilds the season's leaderboard from the match archive. Each rebuild starts from
 * the last published checkpoint and folds in the matches played since then.
 *
 * @param {object} deps
 * @param {import('redis').RedisClientType} deps.redis
 */
export function createLeaderboardJob({ redis, matches, scoring, log }) {
  async function renewUntil(stop, key, token, grantedUntil, lost) {
    let validUntil = grantedUntil;
    for (;;) {
      try {
        await sleep(RENEW_MS, undefined, { signal: stop });
      } catch {
        return;
      }
      const sentAt = performance.now();
      try {
        const extended = await redis.eval(EXTEND, { keys: [key], arguments: [token, String(TTL_MS)] });
        if (extended !== 1) {
          lost.abort(new Error(`lost ${key}`));
          return;
        }
        validUntil = sentAt + TTL_MS;
      } catch (err) {
        log.warn({ err, key }, 'leaderboard lock not renewed');
        if (performance.now() + RENEW_MS > validUntil) {
          lost.abort(new Error(`could not renew ${key}`));
          return;
        }
      }
    }
  }

  return async function rebuild(seasonId) {
    const key = `{season:${seasonId}}:rebuild-lock`;
    const boardKey = `{season:${seasonId}}:board`;
    const checkpointKey = `{season:${seasonId}}:checkpoint`;
    const token = randomUUID();

    const sentAt = performance.now();
    const reply = await redis.set(key, token, { NX: true, PX: TTL_MS });
    if (reply !== 'OK') {
      log.info({ seasonId }, 'rebuild is running on another server');
      return false;
    }

    const stop = new AbortController();
    const lost = new AbortController();
    void renewUntil(stop.signal, key, token, sentAt + TTL_MS, lost);

    try {
      const board = JSON.parse((await redis.get(boardKey)) ?? '{}');
      let checkpoint = (await redis.get(checkpointKey)) ?? '0';

      for await (const match of matches.since(seasonId, checkpoint, { signal: lost.signal })) {
        lost.signal.throwIfAborted();
        scoring.apply(board, match);
        checkpoint = match.id;
      }

      const published = await redis.eval(PUBLISH, {
        keys: [key, boardKey, checkpointKey],
        arguments: [token, JSON.stringify(board), checkpoint],
      });
      if (published !== 1) throw new Error(`rebuild of ${seasonId} was overtaken, nothing published`);

      log.info({ seasonId, checkpoint }, 'leaderboard published');
      return true;
    } finally {
      stop.abort();
      await redis.eval(RELEASE, { keys: [key], arguments: [token] }).catch((err) => {
        log.warn({ err, key }, 'leaderboard lock left to expire');
      });
    }
  };
}
