import { randomUUID } from 'node:crypto';
import { spawn } from 'node:child_process';
import { rename, rm } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import Redis from 'ioredis';
import Redlock from 'redlock4';

const TTL_MS = 60_000;
const MARGIN_MS = 15_000;

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 5_000 });
const redlock = new Redlock([redis], { driftFactor: 0.01, retryCount: 0 });
redlock.on('clientError', (err) => console.warn('redlock', err.message));

/** Settles when ffmpeg is gone, not before. */
function ffmpeg(args, signal) {
  return new Promise((resolve, reject) => {
    const child = spawn('ffmpeg', args, { stdio: 'ignore', signal, killSignal: 'SIGKILL' });
    let failure;
    child.on('error', (err) => {
      failure = err;
      if (child.pid === undefined) reject(err);
    });
    child.on('close', (code) => {
      if (failure) reject(failure);
      else if (code === 0) resolve();
      else reject(new Error(`ffmpeg ended with ${code}`));
    });
  });
}

/** Keeps the lock alive and aborts the returned signal well before it could lapse. */
function keepAlive(lock, askedAt) {
  const lost = new AbortController();
  let deadline;
  const safeUntil = (time) => {
    clearTimeout(deadline);
    deadline = setTimeout(() => lost.abort(new Error('lock ran out')), Math.max(0, time - performance.now()));
  };
  safeUntil(askedAt + TTL_MS - MARGIN_MS);

  let extending = null;
  const heartbeat = setInterval(() => {
    if (extending || lost.signal.aborted) return;
    const since = performance.now();
    extending = lock
      .extend(TTL_MS)
      .then(
        () => safeUntil(since + TTL_MS - MARGIN_MS),
        (err) => lost.abort(err),
      )
      .finally(() => {
        extending = null;
      });
  }, 10_000);

  return {
    signal: lost.signal,
    async stop() {
      clearInterval(heartbeat);
      await extending;
      clearTimeout(deadline);
    },
  };
}

/**
 * Transcodes an uploaded episode and publishes the audio.
 *
 * @param {string} episodeId
 * @param {{
 *   get(id: string): Promise<{ uploadPath: string, audioPath: string, published: boolean }>,
 *   publish(id: string, audioPath: string, opts: { signal: AbortSignal }): Promise<void>,
 * }} episodes publish() is idempotent
 * @returns {Promise<'published' | 'already published' | 'busy'>} on 'busy' the queue offers the episode again
 */
export async function transcodeEpisode(episodeId, episodes) {
  const askedAt = performance.now();
  let lock;
  try {
    lock = await redlock.lock(`podcast:episode:${episodeId}:transcode`, TTL_MS);
  } catch (err) {
    if (err.name === 'LockError') return 'busy';
    throw err;
  }

  const { signal, stop } = keepAlive(lock, askedAt);
  let partial;
  try {
    const episode = await episodes.get(episodeId);
    if (episode.published) return 'already published';

    signal.throwIfAborted();
    partial = `${episode.audioPath}.${randomUUID()}.part`;
    await ffmpeg(['-nostdin', '-y', '-i', episode.uploadPath, '-b:a', '128k', '-f', 'mp3', partial], signal);

    signal.throwIfAborted();
    await rename(partial, episode.audioPath);
    await episodes.publish(episodeId, episode.audioPath, { signal });
    return 'published';
  } finally {
    await stop();
    if (partial) await rm(partial, { force: true }).catch((err) => console.warn('left behind', partial, err.message));
    await lock.unlock().catch((err) => console.warn('unlock', episodeId, err.message));
  }
}
