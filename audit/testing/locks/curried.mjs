import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL);
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Options, then the handler, then its request. */
export const serialized =
  ({ ttl = 8_000 } = {}) =>
  (handler) =>
  async (request, response) => {
    const key = `cart:${request.params.cart}`;
    const token = randomUUID();
    if ((await redis.set(key, token, 'PX', ttl, 'NX')) === null) return response.status(409).end();
    try {
      return await handler(request, response);
    } finally {
      await redis.eval(RELEASE, 1, key, token);
    }
  };
