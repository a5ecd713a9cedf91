import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const TTL_MS = 30_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

function ffmpeg(input, output, signal) {
  return new Promise((resolve, reject) => {
    const child = spawn('ffmpeg', ['-y', '-i', input, '-c:v', 'libx264', '-preset', 'fast', output], {
      stdio: 'ignore',
      signal,
    });
    child.once('error', reject);
    child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`ffmpeg exited with ${code}`))));
  });
}

/**
 * @param {object} deps
 * @param {import('ioredis').Redis} deps.redis created with commandTimeout: 2000
 */
export function createTranscoder({ redis, db, storage, log = console }) {
  return async function transcode(video) {
    const key = `transcode:${video.id}`;
    const token = randomUUID();
    const abort = new AbortController();
    const output = join(tmpdir(), `${video.id}-${token}.mp4`);
    let validUntil = performance.now() + TTL_MS - 1_000;
    let beat;

    try {
      if ((await redis.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') {
        log.info('video %s is being transcoded elsewhere', video.id);
        return false;
      }

      beat = setInterval(async () => {
        const sentAt = performance.now();
        const kept = await redis.eval(EXTEND, 1, key, token, TTL_MS);
        if (kept === 1) {
          validUntil = sentAt + TTL_MS - 1_000;
        } else {
          abort.abort(new Error(`the lock of video ${video.id} is gone`));
        }
      }, TTL_MS / 3);

      const { rows } = await db.query(
        'UPDATE videos SET attempt = attempt + 1, state = $2 WHERE id = $1 RETURNING attempt',
        [video.id, 'transcoding'],
      );
      const { attempt } = rows[0];

      await ffmpeg(video.source, output, abort.signal);
      const path = await storage.upload(output, `videos/${video.id}/${attempt}.mp4`, abort.signal);

      if (performance.now() > validUntil) throw new Error(`the lock of video ${video.id} ran out`);
      const { rowCount } = await db.query(
        "UPDATE videos SET state = 'ready', path = $3 WHERE id = $1 AND attempt = $2",
        [video.id, attempt, path],
      );
      if (rowCount === 0) throw new Error(`attempt ${attempt} on video ${video.id} was overtaken`);
      return true;
    } finally {
      clearInterval(beat);
      await rm(output, { force: true }).catch((err) => log.warn('could not remove %s', output, err));
      await redis.eval(DROP, 1, key, token).catch((err) => log.warn('could not drop %s', key, err));
    }
  };
}
