import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const config = {
  redisUrl: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379',
  // how long a publish may hold the restaurant, in seconds
  publishLockTtl: Number(process.env.PUBLISH_LOCK_TTL ?? 45),
  deliveryPartners: (process.env.DELIVERY_PARTNERS ?? '').split(',').filter(Boolean),
};

const RELEASE_SCRIPT = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

let clientPromise;
function getClient() {
  clientPromise ??= createClient({ url: config.redisUrl })
    .on('error', (err) => console.error('[menu] redis', err.message))
    .connect();
  return clientPromise;
}

export class PublishInProgress extends Error {
  constructor(restaurantId) {
    super(`menu of ${restaurantId} is being published`);
    this.name = 'PublishInProgress';
    this.statusCode = 409;
  }
}

async function lockRestaurant(restaurantId) {
  const client = await getClient();
  const key = `menu:publish:${restaurantId}`;
  const token = randomUUID();

  const reply = await client.set(key, token, {
    condition: 'NX',
    expiration: { type: 'PX', value: config.publishLockTtl },
  });
  if (reply !== 'OK') throw new PublishInProgress(restaurantId);

  return async function unlock() {
    try {
      const deleted = await client.eval(RELEASE_SCRIPT, { keys: [key], arguments: [token] });
      if (deleted !== 1) console.warn('[menu] lock was gone at release', { restaurantId });
    } catch (err) {
      console.warn('[menu] release failed', { restaurantId, err: err.message });
    }
  };
}

async function pushToPartner(partner, restaurantId, menu) {
  const res = await fetch(`https://${partner}/v1/restaurants/${restaurantId}/menu`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(menu),
    signal: AbortSignal.timeout(5_000),
  });
  if (!res.ok) throw new Error(`${partner} refused the menu: ${res.status}`);
}

/**
 * Publishes the current draft everywhere. All partners must end up with the same
 * revision, so two publishes of one restaurant must not interleave.
 */
export async function publishMenu(restaurantId, drafts) {
  const unlock = await lockRestaurant(restaurantId);
  try {
    const draft = await drafts.load(restaurantId);
    const menu = { ...draft, revision: draft.revision + 1, publishedAt: new Date().toISOString() };

    const pushes = await Promise.allSettled(
      config.deliveryPartners.map((p) => pushToPartner(p, restaurantId, menu)),
    );
    const failed = pushes.filter((p) => p.status === 'rejected').map((p) => p.reason);
    if (failed.length) throw new AggregateError(failed, `menu of ${restaurantId} not published everywhere`);

    await drafts.markPublished(restaurantId, menu.revision);
    return menu.revision;
  } finally {
    await unlock();
  }
}
