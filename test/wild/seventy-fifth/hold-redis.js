'use strict';

/**
 * hold-redis - run a function while holding a lock in Redis (one Redis, ioredis).
 *
 *   const { hold } = require('hold-redis');
 *
 *   await hold(redis, 'invoice:42', { ttl: 15000 }, async ({ signal, check }) => {
 *     for (const page of pages) {
 *       check();                        // throws LockLostError once the lock is not sure any more
 *       await push(page, { signal });   // aborted at the same moment
 *     }
 *   });
 *
 * The lease is renewed in the background for as long as fn runs. If renewing does
 * not work out, `signal` is aborted some time *before* the lease ends in Redis, and
 * hold() rejects even when fn went on to the end.
 *
 * It is still a lease: a process that is frozen between check() and a write will do
 * that write when it wakes up. Where this would hurt, put a version on the row too.
 */

const { randomBytes } = require('node:crypto');
const { performance } = require('node:perf_hooks');
const { setTimeout: sleep } = require('node:timers/promises');

const TAKE = `
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const DROP = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

class LockBusyError extends Error {
  constructor(name) {
    super(`"${name}" is locked by someone else`);
    this.name = 'LockBusyError';
  }
}

class LockLostError extends Error {
  constructor(name, reason) {
    super(`lost the lock "${name}": ${reason}`);
    this.name = 'LockLostError';
  }
}

const now = () => performance.now();
const noop = () => {};

async function take(redis, name, key, token, { ttl, margin, wait, retry }) {
  const giveUp = now() + wait;
  try {
    for (;;) {
      const sent = now();
      const reply = await redis.eval(TAKE, 1, key, token, ttl);
      // counted from before sending, so never later than what Redis thinks
      if (reply === 1 && now() < sent + ttl - margin) return sent + ttl;
      if (now() >= giveUp) throw new LockBusyError(name);
      if (reply !== 1) await sleep(retry * (0.5 + Math.random()));
    }
  } catch (err) {
    // after an error we cannot know whether the key was written; nobody else has this token
    redis.eval(DROP, 1, key, token).catch(noop);
    throw err;
  }
}

async function hold(redis, name, options, fn) {
  if (typeof options === 'function') [options, fn] = [{}, options];
  const { ttl = 15000, wait = 5000, retry = 100, prefix = 'hold:' } = options;
  if (!Number.isInteger(ttl) || ttl < 1000) throw new RangeError('ttl: whole milliseconds, at least 1000');

  const key = prefix + name;
  const token = randomBytes(16).toString('hex');
  const margin = ttl / 10;
  let goodUntil = await take(redis, name, key, token, { ttl, margin, wait, retry });

  const controller = new AbortController();
  let finished = false;
  let beat;
  let fuse;

  const lose = (reason) => {
    if (finished || controller.signal.aborted) return;
    clearTimeout(beat);
    clearTimeout(fuse);
    controller.abort(new LockLostError(name, reason));
  };
  const lightFuse = () => {
    clearTimeout(fuse);
    fuse = setTimeout(lose, Math.max(0, goodUntil - margin - now()), 'the lease ran out');
  };
  const check = () => {
    if (now() >= goodUntil - margin) lose('the lease ran out');
    controller.signal.throwIfAborted();
  };
  const renew = async () => {
    const sent = now();
    let reply;
    try {
      reply = await redis.eval(RENEW, 1, key, token, ttl);
    } catch {
      // try again soon; if it never works the fuse burns down
    }
    if (finished || controller.signal.aborted) return;
    if (reply === 0) return lose('it expired or was taken over');
    if (reply === 1) {
      goodUntil = sent + ttl;
      lightFuse();
    }
    beat = setTimeout(renew, reply === 1 ? ttl / 4 : ttl / 15);
  };

  lightFuse();
  beat = setTimeout(renew, ttl / 4);
  try {
    const result = await fn({ signal: controller.signal, check });
    check();
    return result;
  } finally {
    finished = true;
    clearTimeout(beat);
    clearTimeout(fuse);
    // if this does not get through, the lease simply runs out
    await redis.eval(DROP, 1, key, token).catch(noop);
  }
}

module.exports = { hold, LockBusyError, LockLostError };
