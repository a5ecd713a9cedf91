'use strict';
const { randomUUID } = require('node:crypto');
const { spawn } = require('node:child_process');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const SLOTS = Number(process.env.GPU_SLOTS || 4);
const HOLD = 30000;
const SET_KEY = 'render:gpu-slots';

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 3000 });

const NOW = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
`;

redis.defineCommand('slotTake', {
  numberOfKeys: 1,
  lua: `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[3]))
return 1`,
});

redis.defineCommand('slotKeep', {
  numberOfKeys: 1,
  lua: `${NOW}
local at = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not at or tonumber(at) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]))
return 1`,
});

function runBlender(args, signal) {
  return new Promise((resolve, reject) => {
    const child = spawn('blender', args, { signal, killSignal: 'SIGKILL', stdio: 'inherit' });
    let failure = null;
    child.once('error', (err) => {
      failure = err;
      if (child.pid === undefined) reject(err);
    });
    child.once('close', (code) => {
      if (failure) reject(failure);
      else if (code !== 0) reject(new Error(`blender exited with ${code}`));
      else resolve();
    });
  });
}

async function render(scene, frame) {
  const id = randomUUID();
  let sent = Date.now();
  while (!(await redis.slotTake(SET_KEY, id, SLOTS, HOLD))) {
    await sleep(500 + Math.random() * 500);
    sent = Date.now();
  }

  const stop = new AbortController();
  let until = sent + HOLD;
  let busy = false;
  const beat = setInterval(async () => {
    if (Date.now() > until - 5000) stop.abort();
    if (busy || stop.signal.aborted) return;
    busy = true;
    const at = Date.now();
    try {
      if (await redis.slotKeep(SET_KEY, id, HOLD)) until = at + HOLD;
      else stop.abort();
    } catch (err) {
      console.warn('slot heartbeat', err.message);
    } finally {
      busy = false;
    }
  }, 2000);

  try {
    await runBlender(['-b', scene, '-f', String(frame)], stop.signal);
  } finally {
    clearInterval(beat);
    await redis.zrem(SET_KEY, id).catch((e) => console.warn('slot left to expire', e.message));
  }
}

module.exports = { render };
