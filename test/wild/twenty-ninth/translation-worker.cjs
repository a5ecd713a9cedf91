'use strict';

// Takes documents out of the "dirty" set and has them machine-translated. Several
// workers run; a document is translated by one of them at a time (the engine is dear).

const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const LEASE_MS = 15000;
const BEAT_MS = 4000;

function connect(url = process.env.REDIS_URL) {
  const redis = new Redis(url);
  redis.defineCommand('leaseRenew', {
    numberOfKeys: 1,
    lua: `if redis.call('get', KEYS[1]) == ARGV[1] then
            return redis.call('pexpire', KEYS[1], ARGV[2])
          end
          return 0`,
  });
  redis.defineCommand('leaseRelease', {
    numberOfKeys: 1,
    lua: `if redis.call('get', KEYS[1]) == ARGV[1] then
            return redis.call('del', KEYS[1])
          end
          return 0`,
  });
  // Stores the result only for the holder of the lease. The document stays dirty when
  // it was edited in the meantime.
  redis.defineCommand('commitTranslation', {
    numberOfKeys: 4, // lease, doc, translations, dirty
    lua: `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
          redis.call('hset', KEYS[3], ARGV[3], ARGV[4])
          if redis.call('hget', KEYS[2], 'rev') == ARGV[2] then
            redis.call('srem', KEYS[4], ARGV[5])
          end
          return 1`,
  });
  redis.defineCommand('forgetIfGone', {
    numberOfKeys: 2,
    lua: `if redis.call('exists', KEYS[1]) == 0 then return redis.call('srem', KEYS[2], ARGV[1]) end
          return 0`,
  });
  return redis;
}

function keepAlive(redis, key, token, since) {
  const lost = new AbortController();
  let validUntil = since + LEASE_MS;
  const timer = setInterval(() => {
    const sentAt = Date.now();
    // Give up now if the lease would be over before the next beat.
    if (sentAt + BEAT_MS >= validUntil) {
      lost.abort(new Error(`lease on ${key} ran out`));
      clearInterval(timer);
      return;
    }
    redis.leaseRenew(key, token, LEASE_MS).then(
      (ok) => {
        if (ok === 1) {
          validUntil = sentAt + LEASE_MS;
        } else {
          clearInterval(timer);
          lost.abort(new Error(`lease on ${key} lost`));
        }
      },
      (err) => console.warn('[translate] renewal failed', key, err.message),
    );
  }, BEAT_MS);
  return { signal: lost.signal, stop: () => clearInterval(timer) };
}

async function translateOne(redis, docId, engine, lang) {
  const lease = `i18n:lease:${docId}`;
  const token = randomUUID();
  const since = Date.now();
  if ((await redis.set(lease, token, 'PX', LEASE_MS, 'NX')) !== 'OK') return 'busy';

  const beat = keepAlive(redis, lease, token, since);
  try {
    const doc = await redis.hgetall(`i18n:doc:${docId}`);
    if (!doc.rev) {
      await redis.forgetIfGone(`i18n:doc:${docId}`, 'i18n:dirty', docId);
      return 'gone';
    }
    const text = await engine.translate(doc.text, lang, { signal: beat.signal });
    beat.signal.throwIfAborted();

    const committed = await redis.commitTranslation(
      lease, `i18n:doc:${docId}`, `i18n:out:${docId}`, 'i18n:dirty',
      token, doc.rev, lang, text, docId,
    );
    return committed === 1 ? 'done' : 'lost';
  } finally {
    beat.stop();
    await redis.leaseRelease(lease, token).catch((err) => {
      console.warn('[translate] release failed', lease, err.message);
    });
  }
}

async function run(redis, engine, lang, stop) {
  while (!stop.aborted) {
    let outcome = 'idle';
    const docId = await redis.srandmember('i18n:dirty');
    if (docId) {
      try {
        outcome = await translateOne(redis, docId, engine, lang);
      } catch (err) {
        outcome = 'failed';
        console.error('[translate]', docId, err.message);
      }
    }
    if (outcome !== 'done') await new Promise((r) => setTimeout(r, 500 + Math.random() * 500));
  }
}

module.exports = { connect, translateOne, run };
