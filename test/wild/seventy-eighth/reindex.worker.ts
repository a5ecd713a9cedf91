import { DelayedError, Worker, type Job } from 'bullmq';
import { Client as Elastic } from '@elastic/elasticsearch';
import Redis from 'ioredis';
import Redlock from 'redlock5';
import { db } from '../db';
import { config } from './config';
import { logger } from '../logger';

type ReindexJob = { tenantId: string };

const BATCH = 500;
const LOCK_MS = 30_000;

const elastic = new Elastic({ node: config.elasticUrl, requestTimeout: 15_000 });
const queueConnection = new Redis(config.redisUrl, { maxRetriesPerRequest: null });
const lockConnection = new Redis(config.redisUrl, { maxRetriesPerRequest: 1 });

const redlock = new Redlock([lockConnection], { retryCount: 0, driftFactor: 0.01 });
redlock.on('error', (err) => logger.debug({ err }, 'redlock'));

async function indexBatch(tenantId: string, afterId: number) {
  const { rows } = await db.query(
    `select id, title, body, version from articles
      where tenant_id = $1 and id > $2 order by id limit ${BATCH}`,
    [tenantId, afterId],
  );
  if (rows.length === 0) return null;

  const res = await elastic.bulk({
    operations: rows.flatMap((r) => [
      {
        index: {
          _index: `articles-${tenantId}`,
          _id: String(r.id),
          // row version goes up with each edit, so an older copy never replaces a newer one
          version: r.version,
          version_type: 'external_gte' as const,
        },
      },
      { title: r.title, body: r.body },
    ]),
  });
  const failed = res.items.filter((i) => i.index?.error && i.index.status !== 409);
  if (failed.length) throw new Error(`${failed.length} documents of ${tenantId} not indexed`);
  return rows[rows.length - 1].id as number;
}

async function reindex(job: Job<ReindexJob>, token?: string) {
  const { tenantId } = job.data;
  let entered = false;

  try {
    await redlock.using(
      [`reindex:${tenantId}`],
      LOCK_MS,
      { automaticExtensionThreshold: 10_000 },
      async (signal) => {
        entered = true;
        let cursor: number | null = 0;
        let batches = 0;
        while (cursor !== null) {
          if (signal.aborted) throw signal.error ?? new Error('lock lost');
          cursor = await indexBatch(tenantId, cursor);
          await job.updateProgress({ batches: ++batches, cursor });
        }
      },
    );
  } catch (err) {
    if (entered) throw err; // normal retry with backoff
    // another worker has this tenant (or redis did not answer), look again in a minute
    logger.info({ tenantId, err }, 'reindex put off');
    await job.moveToDelayed(Date.now() + 60_000, token);
    throw new DelayedError();
  }
}

export const worker = new Worker<ReindexJob>('reindex', reindex, {
  connection: queueConnection,
  concurrency: 4,
});

worker.on('failed', (job, err) => logger.error({ err, id: job?.id }, 'reindex failed'));

process.on('SIGTERM', async () => {
  await worker.close();
  await Promise.allSettled([queueConnection.quit(), lockConnection.quit()]);
});
