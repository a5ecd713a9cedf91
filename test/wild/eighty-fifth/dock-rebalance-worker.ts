import { Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import type { Pool } from 'pg';
import type { Logger } from 'pino';
import Redlock, { ResourceLockedError, type RedlockAbortSignal } from 'redlock5';

interface Move { seq: number; from: string; to: string; bikes: number }
interface RebalanceJob { planId: string; moves: Move[] }

export interface RebalanceDeps {
  queueRedis: Redis;
  lockRedisUrls: string[];
  pool: Pool;
  logger: Logger;
  truckApi: string;
}

const LOCK_MS = 20_000;

export function startRebalanceWorker({ queueRedis, lockRedisUrls, pool, logger, truckApi }: RebalanceDeps) {
  const redlock = new Redlock(
    lockRedisUrls.map((url) => new Redis(url, { commandTimeout: 1_000, maxRetriesPerRequest: 1 })),
    { retryCount: 20, retryDelay: 250, retryJitter: 150, automaticExtensionThreshold: 8_000 },
  );
  redlock.on('error', (err) => {
    if (!(err instanceof ResourceLockedError)) logger.warn({ err }, 'redlock');
  });

  // dock_moves: primary key (plan_id, seq)
  async function book(planId: string, move: Move, signal: RedlockAbortSignal): Promise<void> {
    const client = await pool.connect();
    let failed: Error | undefined;
    try {
      await client.query('begin');
      await client.query('set local statement_timeout = 3000');
      const fresh = await client.query(
        'insert into dock_moves (plan_id, seq, bikes) values ($1, $2, $3) on conflict do nothing',
        [planId, move.seq, move.bikes],
      );
      if (fresh.rowCount) {
        const taken = await client.query(
          'update docks set bikes = bikes - $2 where id = $1 and bikes >= $2',
          [move.from, move.bikes],
        );
        const put = await client.query(
          'update docks set bikes = bikes + $2 where id = $1 and bikes + $2 <= capacity',
          [move.to, move.bikes],
        );
        if (!taken.rowCount || !put.rowCount) throw new Error(`move ${planId}/${move.seq} does not fit`);
      }
      if (signal.aborted) throw signal.error ?? new Error('dock lock lost');
      await client.query('commit');
    } catch (err) {
      await client.query('rollback').catch((e) => (failed = e));
      throw err;
    } finally {
      client.release(failed);
    }
  }

  async function orderTruck(planId: string, move: Move, signal: RedlockAbortSignal): Promise<void> {
    const res = await fetch(`${truckApi}/orders`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': `${planId}:${move.seq}` },
      body: JSON.stringify(move),
      signal: AbortSignal.any([signal, AbortSignal.timeout(5_000)]),
    });
    if (!res.ok) throw new Error(`truck dispatch answered ${res.status}`);
  }

  const worker = new Worker<RebalanceJob>(
    'dock-rebalance',
    async (job: Job<RebalanceJob>) => {
      const { planId, moves } = job.data;
      for (const move of moves) {
        const resources = [move.from, move.to].sort().map((id) => `lock:dock:${id}`);
        await redlock.using(resources, LOCK_MS, async (signal) => {
          await book(planId, move, signal);
          if (signal.aborted) throw signal.error ?? new Error('dock lock lost');
          await orderTruck(planId, move, signal);
        });
        await job.updateProgress({ done: move.seq });
      }
    },
    { connection: queueRedis, concurrency: 4 },
  );
  worker.on('error', (err) => logger.error({ err }, 'rebalance worker'));
  return worker;
}
