/**
 * Mixes dubbed voices into the sound track of a title.
 *
 * The mixer rewrites the title's stems on the shared volume, so that only one
 * mix per title may run, whatever the language.
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'bullmq';
import Redis from 'ioredis';
import pino from 'pino';

const log = pino({ name: 'mix-worker' });
const TTL_MS = 30_000;
const BEAT_MS = 8_000;

/** One connection for the queue and the locks. */
const connection = new Redis(process.env.REDIS_URL ?? 'redis://localhost', {
  maxRetriesPerRequest: null,
  enableReadyCheck: false,
});
connection.on('error', (err) => log.warn({ err }, 'redis'));

connection.defineCommand('extendLock', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('pexpire', KEYS[1], ARGV[2])`,
});
connection.defineCommand('releaseLock', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('del', KEYS[1])`,
});

class TitleBusyError extends Error {}
class TitleLostError extends Error {}

/**
 * Renews until `stop` fires; aborts `lost` on a refusal or a failed renewal.
 * @param {string} key
 * @param {string} token
 * @param {AbortController} lost
 * @param {AbortSignal} stop
 */
async function keepAlive(key, token, lost, stop) {
  for (;;) {
    await sleep(BEAT_MS, undefined, { signal: stop }).catch(() => {});
    if (stop.aborted) return;
    try {
      if ((await connection.extendLock(key, token, TTL_MS)) === 1) continue;
      lost.abort(new TitleLostError(key));
    } catch (err) {
      lost.abort(new TitleLostError(key, { cause: err }));
    }
    return;
  }
}

/**
 * @template T
 * @param {string} titleId
 * @param {(signal: AbortSignal) => Promise<T>} work
 * @returns {Promise<T>}
 */
async function withTitle(titleId, work) {
  const key = `mix:title:${titleId}`;
  const token = randomUUID();
  if ((await connection.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') throw new TitleBusyError(titleId);
  const lost = new AbortController();
  const stop = new AbortController();
  keepAlive(key, token, lost, stop.signal);
  try {
    const result = await work(lost.signal);
    lost.signal.throwIfAborted();
    return result;
  } finally {
    stop.abort();
    await connection.releaseLock(key, token).catch((err) => log.warn({ err, key }, 'not released'));
  }
}

/** Runs the mixer; it is killed when the signal fires. */
async function mix(titleId, language, signal) {
  signal.throwIfAborted();
  const child = spawn('stem-mixer', ['--title', titleId, '--voices', language, '--in-place'], {
    signal,
    killSignal: 'SIGKILL',
    stdio: 'inherit',
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`stem-mixer ended with ${code}`);
}

export const worker = new Worker(
  'mix',
  async (job) => {
    const { titleId, language } = job.data;
    await withTitle(titleId, (signal) => mix(titleId, language, signal));
    log.info({ titleId, language }, 'mixed');
  },
  { connection, concurrency: 2 },
);

worker.on('failed', (job, err) => log.error({ id: job?.id, err }, 'mix failed'));
