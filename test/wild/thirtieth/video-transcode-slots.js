import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

// The GPU host pool has a licence for this many encoder sessions in total.
const SLOTS = Number(process.env.ENCODER_SLOTS ?? 4);
const KEY = 'transcode:slots';
const SLOT_MS = 60_000;
const MARGIN_MS = 10_000;

const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

const KEEP = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

async function giveBack(redis, id) {
  try {
    await redis.zrem(KEY, id);
  } catch (err) {
    console.warn('slot %s not returned, it will age out', id, err.message);
  }
}

/** Waits for a free slot. `redis` is an ioredis client. */
export async function takeSlot(redis, waitMs = 120_000) {
  const id = randomUUID();
  const giveUpAt = Date.now() + waitMs;
  for (;;) {
    const sentAt = Date.now();
    let got;
    try {
      got = await redis.eval(TAKE, 1, KEY, id, SLOTS, SLOT_MS);
    } catch (err) {
      await giveBack(redis, id);
      throw err;
    }
    if (got === 1) return watch(redis, id, sentAt + SLOT_MS - MARGIN_MS);
    if (Date.now() > giveUpAt) throw new Error('no encoder slot free');
    await sleep(500 + Math.random() * 1000);
  }
}

function watch(redis, id, deadline) {
  const ctl = new AbortController();
  let closed = false;
  let timer;
  let fuse;

  const arm = (until) => {
    clearTimeout(fuse);
    if (closed) return;
    fuse = setTimeout(() => ctl.abort(new Error('encoder slot expired')), Math.max(0, until - Date.now()));
  };

  const beat = async () => {
    const sentAt = Date.now();
    let wait = SLOT_MS / 6;
    try {
      if ((await redis.eval(KEEP, 1, KEY, id, SLOT_MS)) === 1) arm(sentAt + SLOT_MS - MARGIN_MS);
      else ctl.abort(new Error('encoder slot lost'));
    } catch (err) {
      console.warn('slot heartbeat failed', err.message);
      wait = 2_000;
    }
    if (!closed && !ctl.signal.aborted) timer = setTimeout(beat, wait);
  };
  timer = setTimeout(beat, SLOT_MS / 6);
  arm(deadline);
  if (Date.now() >= deadline) ctl.abort(new Error('encoder slot expired'));

  return {
    signal: ctl.signal,
    async release() {
      closed = true;
      clearTimeout(timer);
      clearTimeout(fuse);
      await giveBack(redis, id);
    },
  };
}

function ffmpeg(args, signal) {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const child = spawn('ffmpeg', args, { stdio: 'ignore' });
    const stop = () => child.kill('SIGKILL');
    signal.addEventListener('abort', stop, { once: true });
    child.once('error', reject);
    child.once('close', (code) => {
      signal.removeEventListener('abort', stop);
      if (signal.aborted) reject(signal.reason);
      else if (code === 0) resolve();
      else reject(new Error(`ffmpeg exited with ${code}`));
    });
  });
}

export async function transcode(redis, job) {
  const slot = await takeSlot(redis);
  const part = `${job.output}.${randomUUID()}.mp4`;
  try {
    await ffmpeg(['-y', '-i', job.input, '-c:v', 'h264_nvenc', '-preset', 'p5', part], slot.signal);
    await rename(part, job.output);
  } finally {
    await rm(part, { force: true }).catch(() => {});
    await slot.release();
  }
}
