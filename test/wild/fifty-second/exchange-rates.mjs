import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import axios from 'axios';
import { z } from 'zod';
import { redis } from '../lib/redis-client.mjs';
import { config } from '../config/index.mjs';

const CACHE_TTL_MS = 5 * 60_000;
const LOCK_TTL_MS = 15_000;
const UPSTREAM_TIMEOUT_MS = 5_000;
const MAX_WAIT_MS = 6_000;

const PUBLISH = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[2], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const querySchema = z.object({ base: z.string().regex(/^[A-Z]{3}$/) });

const dataKey = (base) => `rates:{${base}}:data`;
const lockKey = (base) => `rates:{${base}}:lock`;

class RatesBusyError extends Error {}

async function fetchRates(base) {
  const { data } = await axios.get(`${config.ratesUrl}/latest`, {
    params: { base },
    timeout: UPSTREAM_TIMEOUT_MS,
    signal: AbortSignal.timeout(UPSTREAM_TIMEOUT_MS),
  });
  return { base, rates: data.rates, fetchedAt: new Date().toISOString() };
}

async function refresh(base, token, log) {
  try {
    const hit = await redis.get(dataKey(base));
    if (hit) return JSON.parse(hit);

    const rates = await fetchRates(base);
    try {
      await redis.eval(PUBLISH, {
        keys: [lockKey(base), dataKey(base)],
        arguments: [token, JSON.stringify(rates), String(CACHE_TTL_MS)],
      });
    } catch (err) {
      log.warn({ err, base }, 'could not store rates');
    }
    return rates;
  } finally {
    try {
      await redis.eval(RELEASE, { keys: [lockKey(base)], arguments: [token] });
    } catch (err) {
      log.warn({ err, base }, 'could not release rates lock');
    }
  }
}

async function getRates(base, log) {
  const token = randomUUID();
  const deadline = Date.now() + MAX_WAIT_MS;
  for (;;) {
    const hit = await redis.get(dataKey(base));
    if (hit) return JSON.parse(hit);

    const reply = await redis.set(lockKey(base), token, { NX: true, PX: LOCK_TTL_MS });
    if (reply === 'OK') return refresh(base, token, log);

    if (Date.now() >= deadline) throw new RatesBusyError(`rates for ${base} are being refreshed`);
    await sleep(100 + Math.random() * 100);
  }
}

export default async function ratesRoutes(app) {
  app.get('/rates', async (request, reply) => {
    const query = querySchema.safeParse(request.query);
    if (!query.success) return reply.code(400).send({ error: 'invalid_base' });

    try {
      return await getRates(query.data.base, request.log);
    } catch (err) {
      request.log.error({ err }, 'rates unavailable');
      reply.header('retry-after', '2');
      return reply.code(503).send({ error: err instanceof RatesBusyError ? 'busy' : 'unavailable' });
    }
  });
}
