const Redis = require('ioredis');
const { randomBytes } = require('node:crypto');

const redis = new Redis(process.env.REDIS_URL || 'redis://localhost:6379');

const TTL = 15000;
const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

async function stitch(clipId, work) {
  const key = `stitch:${clipId}`;
  const token = randomBytes(16).toString('hex');
  const abort = new AbortController();

  let sentAt = Date.now();
  const granted = await redis.set(key, token, 'PX', TTL, 'NX');
  if (granted !== 'OK') return { skipped: true };

  let fuse;
  const rearm = () => {
    clearTimeout(fuse);
    fuse = setTimeout(() => abort.abort(new Error('lease expired')), sentAt + TTL - 2000 - Date.now());
  };
  rearm();

  const watchdog = setInterval(async () => {
    const t = Date.now();
    try {
      const kept = await redis.eval(RENEW, 1, key, token, TTL);
      if (kept !== 1) {
        clearInterval(watchdog);
        abort.abort(new Error('lease lost'));
        return;
      }
      sentAt = t;
      rearm();
    } catch (err) {
      console.warn('renewal of %s failed: %s', key, err.message);
    }
  }, TTL / 3);

  const output = await work(abort.signal);

  clearInterval(watchdog);
  clearTimeout(fuse);
  abort.signal.throwIfAborted();
  await redis.eval(RELEASE, 1, key, token);
  return { skipped: false, output };
}

module.exports = { stitch };
