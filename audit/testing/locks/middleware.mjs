import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const client = createClient({ url: process.env.REDIS_URL });
client.on('error', () => {});
const ready = client.connect();

/** Locks for as long as a request takes: until its answer has been sent. */
export function oneRequestAtATime({ ttlMs = 15_000 } = {}) {
  return async (req, res, next) => {
    const key = `request:${req.method}:${req.params.id}`;
    const token = randomUUID();
    try {
      await ready;
      const taken = await client.set(key, token, { NX: true, PX: ttlMs });
      if (taken === null) return res.status(409).json({ error: 'another request is in progress' });
    } catch (error) {
      return next(error);
    }
    res.once('finish', () => client.eval(RELEASE, { keys: [key], arguments: [token] }).catch(() => {}));
    next();
  };
}
