import { randomUUID } from 'node:crypto';
import { Client } from '@elastic/elasticsearch';
import { Router } from 'express';
import Redis from 'ioredis';
import { streamProducts } from '../db/products';
import { requireAdmin } from '../middleware/auth';
import { config } from '../config';
import { logger } from '../config/logger';

const LOCK_KEY = 'lock:catalog-reindex';
const LOCK_TTL_MS = 30_000;
const HEARTBEAT_MS = 8_000;
const ALIAS = 'catalog';

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

const redis = new Redis(config.redisUrl, { commandTimeout: 2_000, maxRetriesPerRequest: 1 });
redis.on('error', (err) => logger.warn({ err }, 'redis error'));

const search = new Client({ node: config.elasticUrl, requestTimeout: 15_000 });

async function release(token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, 1, LOCK_KEY, token);
  } catch (err) {
    logger.warn({ err }, 'reindex lock release failed');
  }
}

async function reindex(token: string): Promise<void> {
  const controller = new AbortController();
  const heartbeat = setInterval(async () => {
    try {
      const renewed = await redis.eval(RENEW, 1, LOCK_KEY, token, LOCK_TTL_MS);
      if (renewed !== 1) controller.abort(new Error('reindex lock lost'));
    } catch (err) {
      controller.abort(err);
    }
  }, HEARTBEAT_MS);

  const index = `${ALIAS}-${token}`;
  await search.indices.create({ index, mappings: config.catalogMappings });

  let indexed = 0;
  for await (const batch of streamProducts({ batchSize: 500 })) {
    controller.signal.throwIfAborted();
    const operations = batch.flatMap((product) => [{ index: { _id: product.id } }, product]);
    const result = await search.bulk({ index, operations });
    if (result.errors) throw new Error(`bulk indexing into ${index} reported errors`);
    indexed += batch.length;
  }

  controller.signal.throwIfAborted();
  await search.indices.updateAliases({
    actions: [{ remove: { index: `${ALIAS}-*`, alias: ALIAS, must_exist: false } }, { add: { index, alias: ALIAS } }],
  });
  logger.info({ index, indexed }, 'catalog reindexed');

  clearInterval(heartbeat);
  await release(token);
}

export const reindexRouter = Router();

reindexRouter.post('/admin/catalog/reindex', requireAdmin, async (_req, res, next) => {
  try {
    const token = randomUUID();
    const reply = await redis.set(LOCK_KEY, token, 'PX', LOCK_TTL_MS, 'NX');
    if (reply !== 'OK') {
      return res.status(409).json({ error: 'reindex_running' });
    }

    reindex(token).catch((err) => logger.error({ err }, 'catalog reindex failed'));
    return res.status(202).json({ runId: token });
  } catch (err) {
    return next(err);
  }
});
