'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { createClient } = require('redis');

const LEASE_MS = 60_000;
const MARGIN_MS = 5_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

// Ownership and result live in the same Redis, so they are checked and written together.
const COMMIT = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], 'rendition', ARGV[2])
return 1`;

function keepAlive(redis, key, token, askedAt) {
  const lost = new AbortController();
  const stopped = new AbortController();
  let validUntil = askedAt + LEASE_MS - MARGIN_MS;

  const watchdog = setInterval(() => {
    if (performance.now() >= validUntil) lost.abort(new Error('lease ran out'));
  }, 500);

  (async () => {
    while (!stopped.signal.aborted && !lost.signal.aborted) {
      await sleep(LEASE_MS / 4, undefined, { signal: stopped.signal }).catch(() => {});
      if (stopped.signal.aborted) return;
      const sentAt = performance.now();
      try {
        const kept = await redis.eval(EXTEND, { keys: [key], arguments: [token, String(LEASE_MS)] });
        if (kept === 1) validUntil = sentAt + LEASE_MS - MARGIN_MS;
        else lost.abort(new Error('lease was taken over'));
      } catch (err) {
        console.warn('lease not extended', key, err.message);
      }
    }
  })();

  return {
    signal: lost.signal,
    stop() {
      clearInterval(watchdog);
      stopped.abort();
    },
  };
}

function createTranscodeHandler({ redis, queue, encoder, log = console }) {
  return async function onMessage(message) {
    const { assetId, source } = message.body;
    const lockKey = `{asset:${assetId}}:transcoding`;
    const assetKey = `{asset:${assetId}}`;
    const token = randomUUID();

    const askedAt = performance.now();
    const reply = await redis.set(lockKey, token, { NX: true, PX: LEASE_MS });
    if (reply !== 'OK') {
      await queue.retryLater(message, 30_000);
      return;
    }

    const lease = keepAlive(redis, lockKey, token, askedAt);
    try {
      if (!(await redis.hGet(assetKey, 'rendition'))) {
        // Every attempt has its own output file; only the committed one is ever referenced.
        const output = `renditions/${assetId}/${token}.mp4`;
        await encoder.encode(source, output, { signal: lease.signal });
        lease.signal.throwIfAborted();
        const committed = await redis.eval(COMMIT, { keys: [lockKey, assetKey], arguments: [token, output] });
        if (committed !== 1) throw new Error('lease lost before the commit');
      }
      await queue.ack(message);
    } catch (err) {
      log.error('transcode failed', { assetId, err });
      await queue.retryLater(message, 60_000);
    } finally {
      lease.stop();
      await redis.eval(RELEASE, { keys: [lockKey], arguments: [token] }).catch((err) => log.warn(err.message));
    }
  };
}

async function startTranscoding(queue, encoder) {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (err) => console.warn('redis', err.message));
  await redis.connect();
  queue.subscribe('transcode', createTranscodeHandler({ redis, queue, encoder }));
}

module.exports = { createTranscodeHandler, startTranscoding };
