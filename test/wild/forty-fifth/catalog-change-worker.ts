import { Queue, Worker } from 'bullmq';
import axios from 'axios';
import Redis from 'ioredis';
import knexFactory from 'knex';
import { nanoid } from 'nanoid';
import pino from 'pino';
import { z } from 'zod';

const log = pino({ name: 'catalog-changes' });
const connection = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
const redis = new Redis(process.env.REDIS_URL!);
const knex = knexFactory({ client: 'pg', connection: process.env.DATABASE_URL });

const ChangeSet = z.object({
  shopId: z.string(),
  changes: z.array(z.object({ sku: z.string(), version: z.number().int(), priceCents: z.number().int(), title: z.string() })),
});
type ChangeSet = z.infer<typeof ChangeSet>;

export const queue = new Queue<ChangeSet>('catalog-changes', {
  connection,
  defaultJobOptions: { attempts: 8, backoff: { type: 'exponential', delay: 2_000 }, removeOnComplete: 500 },
});

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

async function tryLock(key: string, ttl: number) {
  const token = nanoid();
  let validUntil = Date.now() + ttl;
  if ((await redis.set(key, token, 'PX', ttl, 'NX')) !== 'OK') return null;

  const abort = new AbortController();
  const timer = setInterval(async () => {
    const sentAt = Date.now();
    if (sentAt > validUntil - ttl / 3) abort.abort(new Error(`could not renew ${key}`));
    try {
      if ((await redis.eval(RENEW, 1, key, token, ttl)) === 1) validUntil = sentAt + ttl;
      else abort.abort(new Error(`lost ${key}`));
    } catch (err) {
      log.warn({ err, key }, 'renewal failed');
    }
  }, ttl / 4);

  return {
    signal: abort.signal,
    async release() {
      clearInterval(timer);
      await redis.eval(RELEASE, 1, key, token).catch((err) => log.warn({ err, key }, 'release failed'));
    },
  };
}

async function applyChange(shopId: string, change: ChangeSet['changes'][number], signal: AbortSignal) {
  const known = await knex('shop_products').where({ shop_id: shopId, sku: change.sku }).first('version');
  if (known && known.version >= change.version) return;
  await axios.put(
    `${process.env.SHOP_API}/shops/${shopId}/products/${change.sku}`,
    { title: change.title, price: change.priceCents / 100 },
    { signal, timeout: 10_000 },
  );
  await knex('shop_products')
    .insert({ shop_id: shopId, sku: change.sku, version: change.version })
    .onConflict(['shop_id', 'sku'])
    .merge();
}

/** Each change set has to reach the shop; the shop API takes one writer per shop. */
export const worker = new Worker<ChangeSet>(
  'catalog-changes',
  async (job) => {
    const { shopId, changes } = ChangeSet.parse(job.data);

    const lock = await tryLock(`catalog:shop:${shopId}`, 60_000);
    if (!lock) {
      log.info({ shopId, jobId: job.id }, 'another worker is writing to this shop');
      return { skipped: true };
    }

    try {
      for (const change of changes) {
        lock.signal.throwIfAborted();
        await applyChange(shopId, change, lock.signal);
        await job.updateProgress({ sku: change.sku });
      }
      return { applied: changes.length };
    } finally {
      await lock.release();
    }
  },
  { connection, concurrency: 10 },
);

worker.on('failed', (job, err) => log.error({ jobId: job?.id, attempts: job?.attemptsMade, err }, 'change set failed'));

process.once('SIGTERM', async () => {
  await worker.close();
  await knex.destroy();
  process.exit(0);
});
