'use strict';
const { execFile } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { promisify } = require('node:util');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const exec = promisify(execFile);

const LEASE_MS = 180_000;
const PASS_MS = 150_000;
const POLL_MS = 250;
const DISHES = Number(process.env.DISHES ?? 3);

const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 2 });
redis.on('error', (err) => console.error('redis', err.message));

redis.defineCommand('dishTake', {
  numberOfKeys: 1,
  lua: `
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
    redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    if redis.call('ZCARD', KEYS[1]) > tonumber(ARGV[3]) then return 0 end
    return 1`,
});

/** Runs fn while one of the ground station's dishes is ours. fn gets the ms it may use. */
async function withDish(station, fn, { limit = DISHES, waitMs = 60_000 } = {}) {
  const key = `groundstation:${station}:dishes`;
  const token = randomUUID();
  const giveUpAt = performance.now() + waitMs;
  try {
    let deadline = performance.now() + PASS_MS;
    while ((await redis.dishTake(key, token, LEASE_MS, limit)) !== 1) {
      if (performance.now() > giveUpAt) throw new DishesBusy(station);
      await sleep(POLL_MS + Math.random() * POLL_MS);
      deadline = performance.now() + PASS_MS;
    }
    const leftMs = Math.floor(deadline - performance.now());
    if (leftMs < 1_000) throw new DishesBusy(station);
    return await fn(leftMs);
  } finally {
    await redis.zrem(key, token).catch((err) => console.warn(`dish of ${station} expires by itself: ${err.message}`));
  }
}

function downlink(station, satellite, out) {
  return withDish(station, (leftMs) =>
    exec('rx-pass', ['--station', station, '--norad', String(satellite), '--out', out], {
      timeout: leftMs,
      killSignal: 'SIGKILL',
    }),
  );
}

class DishesBusy extends Error {
  constructor(station) {
    super(`no free dish at ${station}`);
    this.name = 'DishesBusy';
  }
}

module.exports = { withDish, downlink, DishesBusy };
