#!/usr/bin/env node
// usage: puzzle-firmware-rollout.cjs <venue> <image.bin>
const { createClient } = require('redis');
const { randomUUID } = require('node:crypto');
const { readFile } = require('node:fs/promises');
const { setTimeout: sleep } = require('node:timers/promises');

const UPLINK_SLOTS = 3;
const TTL = 30_000;
const MARGIN = 2_000;
const WAIT = 30 * 60_000;
const CHUNK = 64 * 1024;

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis:', err.message));

const NOW = `local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;
const TAKE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3] + 1000)
return 1`;
const RENEW = `${NOW}
local till = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not till or tonumber(till) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2] + 1000)
return 1`;

async function withUplink(venue, work) {
  const key = `venue:${venue}:uplink`;
  const id = randomUUID();
  const giveUp = performance.now() + WAIT;
  const ctl = new AbortController();
  let expiry;
  let beat;
  let closed = false;

  const arm = (from) => {
    clearTimeout(expiry);
    if (closed) return;
    const left = from + TTL - MARGIN - performance.now();
    if (left <= 0) ctl.abort(new Error('uplink slot expired'));
    else expiry = setTimeout(() => ctl.abort(new Error('uplink slot expired')), left);
  };

  try {
    for (;;) {
      const asked = performance.now();
      const got = await redis.eval(TAKE, { keys: [key], arguments: [id, String(UPLINK_SLOTS), String(TTL)] });
      if (got === 1) {
        arm(asked);
        break;
      }
      if (asked > giveUp) throw new Error(`no uplink slot at ${venue}`);
      await sleep(300 + Math.random() * 500);
    }
    beat = setInterval(async () => {
      const at = performance.now();
      try {
        const ok = await redis.eval(RENEW, { keys: [key], arguments: [id, String(TTL)] });
        if (ok === 1) arm(at);
        else ctl.abort(new Error('uplink slot gone'));
      } catch (err) {
        console.warn('renew:', err.message);
      }
    }, TTL / 3);
    ctl.signal.throwIfAborted();
    return await work(ctl.signal);
  } finally {
    closed = true;
    clearInterval(beat);
    clearTimeout(expiry);
    await redis.zRem(key, id).catch((err) => console.warn('release:', err.message));
  }
}

// Controllers store each chunk at its offset and swap images on /commit.
async function flash(host, image, signal) {
  const call = async (path, init) => {
    const res = await fetch(`http://${host}${path}`, { ...init, signal: AbortSignal.any([signal, AbortSignal.timeout(15_000)]) });
    if (!res.ok) throw new Error(`${host}${path}: ${res.status}`);
  };
  for (let at = 0; at < image.length; at += CHUNK) {
    await call(`/firmware/${at}`, { method: 'PUT', body: image.subarray(at, at + CHUNK) });
  }
  await call('/firmware/commit', { method: 'PUT' });
}

async function main([venue, file]) {
  const image = await readFile(file);
  await redis.connect();
  const hosts = await redis.sMembers(`venue:${venue}:controllers`);
  const results = await Promise.allSettled(
    hosts.map((host) => withUplink(venue, (signal) => flash(host, image, signal))));
  results.forEach((r, i) => console.log(hosts[i], r.status === 'fulfilled' ? 'ok' : `FAILED ${r.reason.message}`));
  await redis.quit();
  process.exitCode = results.some((r) => r.status === 'rejected') ? 1 : 0;
}

main(process.argv.slice(2)).catch((err) => { console.error(err); process.exit(1); });
