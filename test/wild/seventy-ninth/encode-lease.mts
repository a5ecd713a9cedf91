import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const redis = await createClient({ url: process.env.REDIS_URL })
  .on('error', (err) => console.error('redis', err))
  .connect();

const LEASE_MS = 20_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function encode(input: string, output: string): Promise<void> {
  const child = spawn('ffmpeg', ['-y', '-i', input, '-c:v', 'libx264', output], { stdio: 'ignore' });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`ffmpeg exited with ${code}`);
}

export async function encodeOnce(videoId: string): Promise<boolean> {
  const key = `encode:${videoId}`;
  const leaseId = randomUUID();

  const got = await redis.set(key, leaseId, { NX: true, PX: LEASE_MS });
  if (got !== 'OK') return false;

  const beat = setInterval(() => {
    redis.pExpire(key, LEASE_MS).catch((err) => console.warn('lease %s: %s', key, err.message));
  }, LEASE_MS / 4);

  try {
    await encode(`/media/in/${videoId}.mov`, `/media/out/${videoId}.mp4`);
    await redis.hSet('encode:finished', videoId, new Date().toISOString());
    return true;
  } finally {
    clearInterval(beat);
    await redis.eval(RELEASE, { keys: [key], arguments: [leaseId] });
  }
}

const blocking = redis.duplicate();
await blocking.connect();
for (;;) {
  const next = await blocking.blPop('encode:queue', 0);
  if (!next) continue;
  try {
    const mine = await encodeOnce(next.element);
    if (!mine) console.log('%s is taken', next.element);
  } catch (err) {
    console.error('encode %s', next.element, err);
    await redis.rPush('encode:queue', next.element);
  }
}
