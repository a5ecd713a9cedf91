import { randomUUID } from 'node:crypto';
import { zValidator } from '@hono/zod-validator';
import { Hono } from 'hono';
import { createClient } from 'redis';
import { z } from 'zod';
import { acme } from '../acme';
import { domains } from '../db/domains';
import { logger } from '../logger';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => logger.warn({ err }, 'redis'));
await redis.connect();

// The order is cut off after 60s (see signal below).
const LOCK_TTL_MS = 90_000;
const ORDER_TIMEOUT_MS = 60_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

class DomainLock implements AsyncDisposable {
  constructor(
    private readonly key: string,
    private readonly token: string,
  ) {}

  async [Symbol.asyncDispose]() {
    try {
      await redis.eval(RELEASE, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      logger.warn({ err, key: this.key }, 'domain lock not released');
    }
  }
}

async function lockDomain(hostname: string): Promise<DomainLock | null> {
  const key = `domain:${hostname}:cert`;
  const token = randomUUID();
  const reply = await redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
  return reply === 'OK' ? new DomainLock(key, token) : null;
}

const Query = z.object({ force: z.enum(['0', '1']).default('0') });

export const domainRoutes = new Hono<{ Variables: { accountId: string } }>();

/**
 * Verifies the DNS of a customer's domain and orders a certificate. Let's Encrypt limits
 * duplicate certificates to five a week, and the dashboard polls this route, so only one
 * order per hostname may be under way. `await using` gives the lock back on every path.
 */
domainRoutes.post('/domains/:hostname/verify', zValidator('query', Query), async (c) => {
  const hostname = c.req.param('hostname').toLowerCase();
  const { force } = c.req.valid('query');

  await using lock = await lockDomain(hostname);

  const domain = await domains.find(c.get('accountId'), hostname);
  if (!domain) return c.json({ error: 'unknown domain' }, 404);
  if (domain.certificateId && force !== '1') {
    return c.json({ status: 'active', certificateId: domain.certificateId });
  }

  const signal = AbortSignal.timeout(ORDER_TIMEOUT_MS);
  try {
    const challenge = await acme.checkDns(hostname, { signal });
    if (!challenge.ok) return c.json({ status: 'pending', missing: challenge.missing }, 202);

    const cert = await acme.order(hostname, { signal });
    await domains.activate(domain.id, cert.id, cert.notAfter);
    logger.info({ hostname, certificateId: cert.id }, 'certificate issued');
    return c.json({ status: 'active', certificateId: cert.id });
  } catch (err) {
    logger.error({ err, hostname }, 'certificate order failed');
    return c.json({ error: 'verification failed, please try again later' }, 502);
  }
});
