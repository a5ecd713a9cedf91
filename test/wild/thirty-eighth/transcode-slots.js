import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const KEY = 'transcode:slots';
const LIMIT = Number(process.env.TRANSCODE_LIMIT ?? 6); // encoder licences we have, over all workers
const LEASE_MS = 60_000;
const BEAT_MS = 15_000;

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
await redis.connect();

async function takeSlot() {
  const id = randomUUID();
  const now = Date.now();
  await redis.zRemRangeByScore(KEY, '-inf', now - LEASE_MS);
  const busy = await redis.zCard(KEY);
  if (busy >= LIMIT) return null;
  await redis.zAdd(KEY, { score: now, value: id });
  return id;
}

async function waitForSlot(signal) {
  for (;;) {
    const id = await takeSlot();
    if (id !== null) return id;
    await sleep(500 + Math.random() * 1000, undefined, { signal });
  }
}

/** False when the slot is no longer ours. */
async function keepSlot(id) {
  const changed = await redis.zAdd(KEY, { score: Date.now(), value: id }, { XX: true, CH: true });
  return changed === 1;
}

function encode(input, output, signal) {
  return new Promise((resolve, reject) => {
    const child = spawn('hwencode', ['-i', input, '-preset', 'p5', '-o', output], { signal, stdio: 'ignore' });
    child.once('error', reject);
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`hwencode exited with ${code}`))));
  });
}

export async function transcode(input, output, signal) {
  const id = await waitForSlot(signal);
  const lost = new AbortController();
  let keptAt = Date.now();
  const beat = setInterval(async () => {
    const askedAt = Date.now();
    try {
      if (await keepSlot(id)) keptAt = askedAt;
      else lost.abort(new Error('slot lost'));
    } catch (err) {
      console.warn('beat of slot %s: %s', id, err.message);
    }
  }, BEAT_MS);
  const watch = setInterval(() => {
    if (Date.now() - keptAt > LEASE_MS - 5_000) lost.abort(new Error('slot not renewed'));
  }, 1_000);

  try {
    await encode(input, output, signal ? AbortSignal.any([signal, lost.signal]) : lost.signal);
  } finally {
    clearInterval(beat);
    clearInterval(watch);
    await redis.zRem(KEY, id).catch((err) => console.warn('slot %s not freed: %s', id, err.message));
  }
}
