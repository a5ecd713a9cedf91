'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

class LockTimeoutError extends Error {
  constructor(name) {
    super(`timed out waiting for ${name}`);
    this.name = 'LockTimeoutError';
  }
}

async function obtain(client, key, token, ttlMs, waitMs) {
  const until = Date.now() + waitMs;
  for (;;) {
    const sent = performance.now();
    const reply = await client.set(key, token, { NX: true, PX: ttlMs });
    if (reply === 'OK') return sent;
    if (Date.now() >= until) throw new LockTimeoutError(key);
    await sleep(50 + Math.random() * 100);
  }
}

function keepAlive(client, key, token, ttlMs, startedAt) {
  const controller = new AbortController();
  const lose = () => controller.abort(new Error(`lock ${key} lost`));
  let stopped = false;
  let deadline = setTimeout(lose, Math.max(0, startedAt + ttlMs * 0.9 - performance.now()));
  const beat = setInterval(async () => {
    const sent = performance.now();
    try {
      const extended = await client.eval(EXTEND, { keys: [key], arguments: [token, String(ttlMs)] });
      if (stopped || controller.signal.aborted) return;
      if (extended !== 1) return lose();
      clearTimeout(deadline);
      deadline = setTimeout(lose, Math.max(0, sent + ttlMs * 0.9 - performance.now()));
    } catch (err) {
      console.warn('extend', key, err.message);
    }
  }, ttlMs / 3);

  return {
    signal: controller.signal,
    stop() {
      stopped = true;
      clearInterval(beat);
      clearTimeout(deadline);
    },
  };
}

async function runExclusive(client, name, fn, { ttlMs = 10_000, waitMs = 5_000 } = {}) {
  const key = `exclusive:${name}`;
  const token = randomUUID();
  const obtainedAt = await obtain(client, key, token, ttlMs, waitMs);

  const lease = keepAlive(client, key, token, ttlMs, obtainedAt);
  try {
    return fn({ signal: lease.signal });
  } finally {
    lease.stop();
    try {
      await client.eval(RELEASE, { keys: [key], arguments: [token] });
    } catch (err) {
      console.warn('release', key, err.message);
    }
  }
}

module.exports = { runExclusive, LockTimeoutError };
