'use strict';
const crypto = require('node:crypto');

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
const EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";

/**
 * Express middleware: one request at a time per user for the routes behind it.
 *
 *   router.put('/avatar', perUser(redis), handler)
 *
 * req.lease.check() throws when the lock is not certain any more; handlers call
 * it before each write.
 */
function perUser(redis, { ttl = 8000, prefix = 'avatar' } = {}) {
  const slack = Math.ceil(ttl * 0.03);

  return async function lockUser(req, res, next) {
    const key = `${prefix}:user:${req.user.id}`;
    const token = crypto.randomUUID();

    let until = performance.now() + ttl - slack;
    let reply;
    try {
      reply = await redis.set(key, token, 'PX', ttl, 'NX');
    } catch (err) {
      redis.eval(RELEASE, 1, key, token).catch(() => {});
      return next(err);
    }
    if (reply !== 'OK') {
      res.set('retry-after', '2');
      return res.status(429).json({ error: 'another upload is running' });
    }

    let lost = false;
    let finished = false;
    let timer;
    const schedule = () => {
      timer = setTimeout(async () => {
        const sent = performance.now();
        try {
          const n = await redis.eval(EXTEND, 1, key, token, ttl);
          if (n === 1 && performance.now() < until) until = sent + ttl - slack;
          else lost = true;
        } catch (err) {
          req.log?.warn({ err }, 'avatar lock: extension failed');
        }
        if (!finished && !lost) schedule();
      }, ttl / 3);
    };
    schedule();

    req.lease = {
      check() {
        if (lost || performance.now() >= until) {
          throw Object.assign(new Error('lock lost'), { status: 409 });
        }
      },
    };

    // 'close' comes after every response, the aborted ones included, so the
    // lock can't leak however the request ends
    const release = () => {
      finished = true;
      clearTimeout(timer);
      redis.eval(RELEASE, 1, key, token).catch((err) => req.log?.warn({ err }, 'avatar lock: release failed'));
    };
    if (res.closed) return release();
    res.once('close', release);
    next();
  };
}

function putAvatar({ images, bucket, users }) {
  return async (req, res, next) => {
    try {
      const previous = await users.avatarOf(req.user.id);
      const sizes = await images.resize(req.body, [64, 256, 1024]); // takes seconds
      const name = crypto.randomUUID();
      for (const s of sizes) {
        req.lease.check();
        await bucket.put(`${req.user.id}/${name}-${s.width}.webp`, s.data);
      }
      req.lease.check();
      await users.setAvatar(req.user.id, name);
      if (previous) {
        req.lease.check();
        await bucket.removeAll(`${req.user.id}/${previous}-`);
      }
      res.json({ avatar: name });
    } catch (err) {
      next(err);
    }
  };
}

module.exports = { perUser, putAvatar };
